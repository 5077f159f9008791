"""The contract between methods and engines: questions about a table, plans, and promises that are recounted."""
