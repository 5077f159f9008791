"""Synthesis: new rows drawn from a model of the table, one file per model."""
