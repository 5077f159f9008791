"""Numeric kernels: plain loops over arrays, compiled by numba."""
