"""Where a table comes from and where a release goes: files, frames and databases."""
