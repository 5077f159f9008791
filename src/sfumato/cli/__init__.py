"""The command line: reads options, runs a job and prints the result."""

from sfumato.cli.commands import main as main
