"""Compare methods and strengths on one table: each releases the same people and is assessed against the same others."""
