"""Judges: who is asked by the metrics that nobody can compute."""

from __future__ import annotations

from ragsweep.judges.none import NoJudge
from ragsweep.judges.openai import OpenAIJudge

__all__ = ["NoJudge", "OpenAIJudge"]
