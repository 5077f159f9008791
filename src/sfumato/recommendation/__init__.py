"""Recommend a method for a table, with reasons and the expected cost."""
