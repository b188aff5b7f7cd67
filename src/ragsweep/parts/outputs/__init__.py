"""Readers of answers: parse a model's text into the output that a task's metrics score."""

from ragsweep.parts.outputs.readers import FencedBlock, JsonObject, WholeText
