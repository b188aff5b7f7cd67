"""Output readers: parse the text of an answer into the output that the metrics of a task score."""

from ragsweep.parts.outputs.readers import FencedBlock, JsonObject, WholeText
