"""Recoding over generalization trees: globally, one level per column, or locally, one node per group of rows."""
