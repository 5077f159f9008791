"""Records in, documents out: terminal, HTML, JSON and figures."""
