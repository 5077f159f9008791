"""What each column is: its role, its generalization tree, and how they are recognised."""
