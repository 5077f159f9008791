"""The anonymization methods: each turns its options and a survey into a plan."""
