"""Child processes, and messages with them over pipes.

A child runs one function of this package, ``python -m sfumato.processes MODULE FUNCTION``. No cell is written to a
disk: messages go through its standard input and output, and what a library prints goes to standard error. It imports
the same modules as its parent, and nothing from the current folder. It ends when its parent does, also while it works.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib import import_module
from typing import Any, BinaryIO


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module in another process, without modules from the current folder."""
    return [sys.executable, "-P", "-m", module, *arguments]


def python_environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process that imports what this one imports, with some variables changed."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | dict(changes or {})


class Child:
    """A running child process, as its parent sees it."""

    def __init__(self, module: str, function: str, *, environment: Mapping[str, str] | None = None) -> None:
        """Start a process that calls ``function`` of ``module`` with its :class:`Parent`.

        ``environment`` are variables that differ from those of this process.
        """
        self._process = subprocess.Popen(
            python_command(__name__, module, function),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=python_environment(environment),
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def send(self, message: Any) -> None:
        """Send a message; OSError if the process has ended."""
        self.send_pickled(pickle.dumps(message))

    def send_pickled(self, message: bytes) -> None:
        """Send a message that is pickled already, such as one that several children get."""
        self._requests.write(message)
        self._requests.flush()

    def receive(self) -> Any:
        """Wait for a message; EOFError, OSError or UnpicklingError if the process ends before it is complete."""
        return pickle.load(self._answers)

    def end(self) -> int:
        """Kill the process, wait until it has ended, and return its exit code."""
        with contextlib.suppress(OSError):
            self._process.kill()
        code = self._process.wait()
        for pipe in (self._requests, self._answers):
            with contextlib.suppress(OSError, ValueError):  # what was still to be written has no reader
                pipe.close()
        return code


class Parent:
    """The process that started this one, as the child sees it."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests, self._answers = requests, answers
        self._messages: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def receive(self) -> Any:
        """Wait for the next message."""
        return self._messages.get()

    def send(self, message: Any) -> None:
        """Send a message; any thread may do so."""
        with self._lock, contextlib.suppress(OSError):
            self._answers.write(pickle.dumps(message))
            self._answers.flush()

    def _listen(self) -> None:
        """Queue what the parent sends; end this process, whatever it is doing, when the parent has gone."""
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                self._messages.put(pickle.load(self._requests))
        os._exit(0)


def _run(module: str, function: str) -> None:
    """Call a function with the parent of this process."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep what libraries print off the pipe
    getattr(import_module(module), function)(Parent(sys.stdin.buffer, answers))


if __name__ == "__main__":
    _run(*sys.argv[1:])
