"""Formats of files: text, Parquet, Arrow, JSON Lines, workbooks and files of statistics packages, read and written."""
