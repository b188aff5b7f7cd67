"""Planted drifts in streams of requests are each named within 200, and streams without one raise hardly an alarm."""

import math
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMED = ("topic", "language", "stale", "rerank x 2", "rerank x 3")


@pytest.mark.nightly
def test_planted_drifts_are_named_within_200_requests_and_others_raise_hardly_an_alarm(
    collections: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGSWEEP_COLLECTIONS", str(collections))
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", "word_overlap")
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])
    from watch import measure

    raised, named = measure(streams=50, planted=10)
    false = [names for names in raised if names]
    assert len(false) <= 3, false
    for drift in NAMED:
        assert all(map(math.isfinite, named[drift, 1.0])), (drift, named[drift, 1.0])
