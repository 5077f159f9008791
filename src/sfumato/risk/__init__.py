"""Measure the risk of a table as it is: uniqueness, quasi-identifiers, group models."""
