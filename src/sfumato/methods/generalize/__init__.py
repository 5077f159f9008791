"""Probabilistic anonymity: an anonymity budget for a population, and recodings that keep it (Lodha and Thomas)."""
