"""Datasets: read a corpus and its golden set."""

from ragsweep.parts.datasets.beir import Beir
from ragsweep.parts.datasets.csv import Csv
from ragsweep.parts.datasets.own_format import Folder, Jsonl, PythonReference, TaskCases
from ragsweep.parts.datasets.squad import Squad
from ragsweep.parts.datasets.trec import Trec
