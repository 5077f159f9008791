"""Show results: as text, as HTML, as JSON and as figures."""
