"""Readers of corpora and golden sets."""

from ragsweep.datasets.beir import Beir
from ragsweep.datasets.csv import Csv
from ragsweep.datasets.folder import Folder
from ragsweep.datasets.jsonl import Jsonl
from ragsweep.datasets.python_reference import PythonReference
from ragsweep.datasets.squad import Squad
from ragsweep.datasets.trec import Trec

__all__ = ["Beir", "Csv", "Folder", "Jsonl", "PythonReference", "Squad", "Trec"]
