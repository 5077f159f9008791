"""Measures of the privacy and utility of a release: scores with intervals, directions and numbers of rows."""
