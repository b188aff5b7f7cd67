"""Readers of corpora and golden sets."""

from ragsweep.datasets.beir import Beir
from ragsweep.datasets.jsonl import Jsonl
from ragsweep.datasets.python_reference import PythonReference

__all__ = ["Beir", "Jsonl", "PythonReference"]
