"""Judges decide the metrics that cannot be computed."""

from __future__ import annotations

from ragsweep.parts.judges.none import NoJudge
from ragsweep.parts.judges.openai import OpenAIJudge
