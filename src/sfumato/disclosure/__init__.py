"""What only looks at a table: who is unique, which columns identify people, how much detail hides them."""
