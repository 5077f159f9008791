"""Settings of the servers that the tests start."""

from __future__ import annotations

import os
import sys

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's workers need Arrow and sfumato, as this Python has
