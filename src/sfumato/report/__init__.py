"""Reports: records as terminal output, HTML, JSON and figures."""
