"""A job: what is done with a table, checked once at the door. Everything that makes or judges a release runs one."""
