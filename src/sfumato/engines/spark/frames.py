"""Recognize frames of Spark without importing it."""

from __future__ import annotations

from typing import Any


def is_spark_frame(source: Any) -> bool:
    """Return whether this is a frame of Spark, classic or Connect."""
    return type(source).__module__.startswith("pyspark.sql.") and hasattr(source, "mapInArrow")
