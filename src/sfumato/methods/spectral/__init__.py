"""Spectral anonymization: the operation is done in a basis that fits the data, and not in the columns (TL)."""
