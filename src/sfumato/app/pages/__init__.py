"""The pages, one file per step: open, columns, trees, risks, statistics, method, run, result, map and downloads."""
