"""Private synthesis: rows drawn from a graphical model of noisy marginals, with a proof of differential privacy."""
