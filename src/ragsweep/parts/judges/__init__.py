"""Judges decide the metrics that cannot be computed."""

from ragsweep.parts.judges.none import NoJudge
from ragsweep.parts.judges.openai import OpenAIJudge
