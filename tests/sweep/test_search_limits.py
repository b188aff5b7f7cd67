"""The limits of a command that end a search early."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra.errors import HydraException

from ragsweep.sweep.searching import search_run
from ragsweep.sweep.searching.search_run import Search


@pytest.mark.parametrize(("limit", "launched"), [(None, 1), (3, 1), (2, 0)])
def test_after_max_failures_a_search_ends_without_failing_its_other_trials(
    limit: int | None, launched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = list[Any]()
    trial = SimpleNamespace(config="a config", overrides=("top_k=3",), job=2)
    monkeypatch.setattr(search_run, "SearchSettings", SimpleNamespace(read=lambda _: None))
    monkeypatch.setattr(search_run, "trial_composer", lambda *_: None)
    monkeypatch.setattr(search_run, "study_title", lambda _: "")
    monkeypatch.setattr(search_run, "run_search", lambda settings, task, launch, *_: launch([trial], None))
    command, context = SimpleNamespace(task=[]), SimpleNamespace(sweep=SimpleNamespace(id="s"))
    search: Any = SimpleNamespace(
        command=command, context=context, settings={}, race=None,
        values={"objective": "mrr", "max_failures": limit},
        ledger=SimpleNamespace(path=Path("ledger.db"), jobs=lambda *_: {0, 1}),
    )  # fmt: skip
    if launched:
        Search._run_jobs(search, jobs.extend, Path())
    else:
        with pytest.raises(HydraException, match="max_failures=2 is reached; raise this limit to run the rest"):
            Search._run_jobs(search, jobs.extend, Path())
    assert len(jobs) == launched
