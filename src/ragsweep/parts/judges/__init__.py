"""Judges: language models whose judgements some metrics use as scores."""

from ragsweep.parts.judges.openai import NoJudge, OpenAIJudge
