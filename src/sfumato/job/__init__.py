"""A request from start to end: whatever makes or judges a release runs here."""
