"""Microaggregation: groups of at least k similar rows, each row released with the values of its group."""
