"""Tables of Arrow columns with kinds, conversion from and to data frames and files, and groups of equal rows."""
