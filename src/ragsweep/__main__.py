"""Let ``python -m ragsweep`` be the command."""

from ragsweep.cli import main

main()
