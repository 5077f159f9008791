"""Releases: a verified table, its manifest, and the folder they are written to."""
