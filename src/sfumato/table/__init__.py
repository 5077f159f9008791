"""Table over Arrow: kinds, frames in and out, groups of equal rows."""
