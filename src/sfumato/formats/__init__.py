"""File formats: text, Parquet, Arrow, JSON Lines, Excel and files of statistics packages."""
