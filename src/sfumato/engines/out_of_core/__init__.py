"""Rows in files: what the engines for tables larger than memory have in common."""
