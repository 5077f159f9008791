"""Classical masking methods."""
