"""The table: Arrow columns with kinds, their encoding, and groups of equal rows."""
