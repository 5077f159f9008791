"""Components of a table, which several methods share: bases, clusters with bases of their own, and the way back."""
