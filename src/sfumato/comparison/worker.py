"""A process that tries methods: ``python -m sfumato.comparison.worker``.

It reads the split and then one trial after the other from standard input, pickled, and writes one line of JSON for
each. So no cell is written to a disk. It ends when its standard input does, as it does when the parent dies.
"""

from __future__ import annotations

import json
import os
import pickle
import sys

from sfumato.comparison.attempt import attempt


def main() -> None:
    """Try methods until there are no more."""
    results = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no result
    requests = sys.stdin.buffer
    split = pickle.load(requests)
    while True:
        try:
            trial = pickle.load(requests)
        except EOFError:
            return
        made = attempt(trial, split)
        results.write(json.dumps({"is_final": made.is_final, "row": made.row.to_plain()}) + "\n")
        results.flush()


if __name__ == "__main__":
    main()
