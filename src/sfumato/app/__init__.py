"""The web page that ``sfumato app`` opens on this machine: the same jobs, step by step.

It computes nothing itself: tables are read, examined and released by the functions that the command line uses, in one
worker process per visitor, so that the page answers while they work.
"""
