"""What a release keeps of the data's relations."""
