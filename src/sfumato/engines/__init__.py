"""Hold the rows, answer surveys and run plans: in memory, with DuckDB or on Spark.

Memory is the reference for all others.
"""
