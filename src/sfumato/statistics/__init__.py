"""Moments, characteristics, their sensitivities, and what boxes say about them."""
