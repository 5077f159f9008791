"""Engines: each answers surveys and carries out plans. The memory engine is the reference for all others."""
