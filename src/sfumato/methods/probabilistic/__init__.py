"""Methods that recode columns: grouping, generalization, the HIPAA safe harbor rule, probabilistic anonymity."""
