"""Recommend a method for a table: from roles, kinds, size and wanted statistics, with reasons and the expected cost."""
