"""Measure the privacy and the utility of a release, by attacks and by comparisons.

Every score has a direction, a number of rows and, where possible, an interval.
"""
