"""Try methods at several strengths on one table, and show them on a map.

Each method releases the same people and is assessed against the same others.
"""
