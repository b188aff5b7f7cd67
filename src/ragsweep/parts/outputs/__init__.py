"""Readers of answers: parse the output that a task's metrics score from a model's text."""

from ragsweep.parts.outputs.structured import JsonObject
from ragsweep.parts.outputs.text import FencedBlock, WholeText
