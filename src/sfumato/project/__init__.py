"""A release as it was asked for: how its input is read, the request, and project files that keep it."""
