"""Questions about a table and their answers, without access to its rows."""
