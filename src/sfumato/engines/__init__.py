"""Where the work is done: each engine answers a survey and carries out a plan. Memory is the truth."""
