"""The commands. This file is the entry point and imports nothing that takes long."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and end with its exit code."""
    from sfumato.cli.app import run

    sys.exit(run())
