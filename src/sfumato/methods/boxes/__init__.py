"""Boxes that minimise the uncertainty of kept statistics (Xiang, Kreinovich et al.)."""

from sfumato.methods.boxes.method import Boxes

__all__ = ["Boxes"]
