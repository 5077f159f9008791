"""The questions that may be asked of a table, and what its columns look like."""
