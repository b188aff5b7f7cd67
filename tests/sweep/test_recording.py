"""A secret is in no text of a recorded outcome, keys included."""

from dataclasses import replace

from ragsweep.core.secrets import Secrets
from ragsweep.sweep.running.recording import masked
from support.results import changed, summary
from test_ledger import result


def test_reasons_of_missing_scores_are_masked_and_names_of_metrics_stay() -> None:
    secrets = Secrets()
    for value in ("hunter-2-and-more", "retrieval"):
        secrets.add(value, named=True)
    failed = replace(summary("retrieval", 0.5), reasons={"401 for hunter-2-and-more": 2, "no evidence": 1})
    summaries = {"retrieval": failed}
    changes = {"metrics": summaries, "first_stage": summaries, "groups": {"category": {"plain": summaries}}}
    given = changed(result("one"), config={"retrieval": "hunter-2-and-more"}, **changes)
    hidden = masked(given, secrets)
    assert "hunter" not in repr(hidden)
    assert hidden.summaries.metrics["retrieval"].reasons == {"401 for ***": 2, "no evidence": 1}
    assert hidden.summaries.first_stage.keys() == hidden.run.config.keys() == {"retrieval"}
