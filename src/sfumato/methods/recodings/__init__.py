"""Recodings of columns: groups of values, cuts of trees and searches of levels, shared by several methods."""
