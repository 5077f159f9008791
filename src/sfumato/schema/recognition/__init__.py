"""Columns are recognised by the words of their names and by their cells: their roles, and what identifies people."""
