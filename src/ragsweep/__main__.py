"""Let ``python -m ragsweep`` be the command."""

from ragsweep.commands.cli import main

main()
