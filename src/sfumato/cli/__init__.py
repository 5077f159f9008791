"""The command line: one file per command, and the options that they share."""

from sfumato.cli.commands import main as main
