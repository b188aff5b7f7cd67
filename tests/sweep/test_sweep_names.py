"""The title of a sweep, in lists, reports and MLflow."""

import pytest

from ragsweep.records.record_rows import Sweep
from ragsweep.sweep.composing.sweep_names import sweep_title


@pytest.mark.parametrize(
    ("name", "jobs", "names", "title"),
    [
        ("sweep", ((),), ("defaults",), "defaults"),  # a multirun without overrides
        ("name=nightly", ((),), ("defaults",), "nightly: defaults"),
        ("top_k=3,5", (("top_k=3",), ("top_k=5",)), ("top_k=3", "top_k=5"), "top_k"),
        ("search", ((),), ("trial 0",), "search, 1 trial"),
        ("sweeps=hybrid_tpe", ((),) * 40, tuple(f"trial {n}" for n in range(40)), "hybrid_tpe, 40 trials"),
    ],
)
def test_title_has_what_is_swept_and_a_search_its_trials(
    name: str, jobs: tuple[tuple[str, ...], ...], names: tuple[str, ...], title: str
) -> None:
    assert sweep_title(Sweep("", name, "", jobs, names)) == title
