"""What applications were asked, read from the traces of a real MLflow."""

from pathlib import Path

import pytest

from ragsweep.core.errors import InputError
from ragsweep.parts.tracking import served_traces
from ragsweep.parts.tracking.connection import Connection
from ragsweep.parts.tracking.served_traces import read_root_inputs
from ragsweep_golden.commands.harvest import find_question

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore:The ``noload``")


@pytest.mark.nightly
def test_inputs_of_root_spans_are_read_page_by_page(
    sqlite_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = [{"question": "How tall?"}, "Why?", {"messages": [{"role": "user", "content": "Where?"}]}, None]
    with Connection.to(sqlite_uri).opened():
        client = Connection.to(sqlite_uri).client
        experiment = client.create_experiment("application", artifact_location=(tmp_path / "files").as_uri())
        with Connection.to(sqlite_uri).as_default(experiment):
            for given in inputs:
                root = client.start_trace("ask", inputs=given, experiment_id=experiment)
                inner = client.start_span("search", root.trace_id, root.span_id, inputs={"query": "not asked"})
                client.end_span(root.trace_id, inner.span_id)
                client.end_trace(root.trace_id)
    monkeypatch.setattr(served_traces, "PAGE", 3)
    found = read_root_inputs(sqlite_uri, "application")
    assert sorted(map(find_question, found)) == ["", "How tall?", "Where?", "Why?"]
    with pytest.raises(InputError, match=r'no experiment "other"; .*known: .*application'):
        read_root_inputs(sqlite_uri, "other")


def test_a_database_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_root_inputs(f"sqlite:///{tmp_path}/other.db", "x")
    assert list(tmp_path.iterdir()) == []
