"""Readers of answers: what a task's metrics score is read from the text that a model wrote."""

from ragsweep.parts.outputs.structured import JsonObject
from ragsweep.parts.outputs.text import FencedBlock, WholeText

__all__ = ["FencedBlock", "JsonObject", "WholeText"]
