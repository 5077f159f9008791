"""Numeric kernels that several rooms share: plain loops over arrays, compiled by numba."""
