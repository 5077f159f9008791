"""Databases as source and destination: PostgreSQL, DuckDB and SQLite."""
