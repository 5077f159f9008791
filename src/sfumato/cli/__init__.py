"""The command line. This file is the entry point; it imports nothing that is slow to import."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its exit code."""
    from sfumato.cli.commands import run

    sys.exit(run())
