"""Boxes with a proof: noisy counts of cells and noisy sums of the kept statistics, differentially private."""
