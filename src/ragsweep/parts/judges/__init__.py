"""Judges: models that decide the metrics for which there is no formula."""

from ragsweep.parts.judges.none import NoJudge
from ragsweep.parts.judges.openai import OpenAIJudge
