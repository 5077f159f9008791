"""Statistics, their sensitivities, and the intervals for them that boxes imply."""
