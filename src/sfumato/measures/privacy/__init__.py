"""What a release gives away of the people in it."""
