"""The web page of ``sfumato app``: the whole way from a table to a release, in a browser on the same machine.

It computes nothing itself: tables are read, examined and released by the functions that the command line uses, in one
worker process per visitor, so that the page answers while they work.
"""
