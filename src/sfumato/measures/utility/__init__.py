"""Measures of utility: how well a release preserves distributions and relations."""
