"""Judges: who is asked by the metrics that nobody can compute."""

from __future__ import annotations

from ragsweep.parts.judges.none import NoJudge
from ragsweep.parts.judges.openai import OpenAIJudge

__all__ = ["NoJudge", "OpenAIJudge"]
