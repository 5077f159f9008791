"""Statistics in words, and the intervals for them that released boxes guarantee."""
