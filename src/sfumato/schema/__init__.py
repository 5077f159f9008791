"""Roles of columns, suggested with reasons or declared in a file, and generalization trees."""
