"""``python -m sfumato``: the command line."""

from sfumato.cli.commands import main

if __name__ == "__main__":
    main()
