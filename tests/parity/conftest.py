"""Settings of the servers that the tests start."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's workers need Arrow and sfumato, as this Python has
# Half of the processor time of a short session of Spark is Java that optimizes code, which small tables do not repay
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ.setdefault("JAVA_TOOL_OPTIONS", JAVA_OPTIONS)
