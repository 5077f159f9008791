"""Analyses that read a table and change nothing: uniqueness, quasi-identifiers, anonymity budgets, identifiers."""
