"""Evaluate a config or, with ``-m``, several configs: python run.py -m top_k=3,5,10."""

from ragsweep.commands.cli import run

if __name__ == "__main__":
    run()
