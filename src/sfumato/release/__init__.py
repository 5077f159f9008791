"""The result: verified rows with a manifest, estimates, and the folder of all files."""
