"""The memory engine: it holds the whole table and answers exactly. All other engines are compared with it."""
