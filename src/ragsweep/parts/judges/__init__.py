"""Judges: models that make the judgements on which some metrics are based."""

from ragsweep.parts.judges.none import NoJudge
from ragsweep.parts.judges.openai import OpenAIJudge
