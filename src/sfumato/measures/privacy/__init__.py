"""Measures of privacy: what a release discloses about the people in it."""
