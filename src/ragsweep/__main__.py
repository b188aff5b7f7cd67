"""The entry point of ``python -m ragsweep``, which runs the command line."""

from ragsweep.commands.cli import main

main()
