"""A job of a sweep: its cost is known even if it fails, and its number stands for one config."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from optuna_sweeper.trials import read_outcome
from ragsweep.core.errors import ConfigError, RagsweepError
from ragsweep.core.results import PARTIAL
from ragsweep.services.usage import UsageMeter
from ragsweep.sweep.composing.job import Job
from ragsweep.sweep.running import jobs
from support.results import a_result
from test_study import completed

CONFIG: Any = SimpleNamespace(values={"max_failures": None})
OWN = {"n_trials": 2, "_target_": "hydra_plugins.optuna_sweeper.sweeper.OptunaSweeper"}


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stand for what a job of a search uses, apart from its evaluation."""
    monkeypatch.setattr(jobs, "name_job", lambda *_: None)
    writer = SimpleNamespace(keep=lambda *_: None, keep_failure=None)
    monkeypatch.setattr(jobs, "OutcomeWriter", lambda *_, **__: writer)
    claims = SimpleNamespace(claim_job=lambda *_, **__: None, release=lambda _: None)
    ledger = SimpleNamespace(claims=claims, jobs=lambda *_: set())
    session = SimpleNamespace(services=SimpleNamespace(meter=UsageMeter()))
    return SimpleNamespace(ledger=ledger, sweep=SimpleNamespace(id="s"), search=OWN, session=session)


@pytest.mark.parametrize("end", [ConnectionError("refused"), PARTIAL])
def test_what_a_failed_trial_has_spent_counts_towards_the_budget(
    end: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    meter = context.session.services.meter

    def attempt(*_: Any) -> Any:
        meter.totals = replace(meter.totals, calls=7)
        if isinstance(end, Exception):
            raise end
        result = a_result()
        return replace(result, run=replace(result.run, state=end)), None

    monkeypatch.setattr(jobs, "attempt", attempt)
    with pytest.raises(Exception) as raised:  # noqa: PT011
        jobs.run_job(context, Job(CONFIG, "", ()))
    assert read_outcome(completed(raised.value), 1).cost == {"calls": 7.0}


def test_the_result_of_a_lost_study_is_not_that_of_another_config(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With storage=null, a resumed search reads the results of its first trials from the ledger, by their numbers."""
    stored, ledger = a_result(), context.ledger
    monkeypatch.setattr(jobs, "job_value", lambda context, number, result, spent: (number, result.run.name))
    ledger.claims.claim_job = lambda *_, **__: "finished"
    ledger.record = lambda *_: SimpleNamespace(outcome=stored)
    context.session.experiment = lambda job: SimpleNamespace(signature=job.name)
    assert jobs.run_job(context, Job(CONFIG, stored.run.signature, (), 1)) == (1, "top_k=3")
    with pytest.raises(RagsweepError, match="another config, top_k=3, as trial 1, but the study that drew it was lost"):
        jobs.run_job(context, Job(CONFIG, "another signature", (), 1))
    raced = replace(stored, run=replace(stored.run, race={"asked": 16}))
    ledger.record, ledger.jobs = lambda *_: SimpleNamespace(outcome=raced), lambda *_: {1}
    with pytest.raises(RagsweepError, match="another config, top_k=3, as trial 1, but the study that drew it was lost"):
        jobs.run_job(context, Job(CONFIG, "another signature", (), 1, rung=16))


@pytest.mark.parametrize(
    ("stop", "refused"), [({"budget": {"money": 2}}, True), ({"budget": {"calls": 2}}, False), (None, False)]
)
def test_a_search_with_a_limit_on_money_needs_a_price_for_every_model(
    stop: Any, refused: bool, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    context.search = {**OWN, "stop": stop}
    monkeypatch.setattr(jobs, "attempt", lambda *_: context.session.services.meter.check_price("mine"))
    with pytest.raises(ConfigError if refused else TypeError) as raised:  # TypeError: nothing was evaluated
        jobs.run_job(context, Job(CONFIG, "", ()))
    told = 'hydra.sweeper.stop.budget.money cannot be enforced: the model "mine" has no price'
    assert str(raised.value).startswith(told) == refused
