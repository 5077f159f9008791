"""The DuckDB engine: tables larger than memory, from files on disk."""
