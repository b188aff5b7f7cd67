"""`ragsweep ship` takes a config only as it was evaluated: with the same parts, and with values that the ledger has."""

import os
import sys
from pathlib import Path

import pytest

from ragsweep.core.building import Builder
from ragsweep.core.errors import InputError
from ragsweep.core.types import Corpus
from ragsweep.sweep.concluding.recorded_runs import find_run
from ragsweep_serving.commands.ship import evaluated_graph, ship
from support.commands import RUN, call, printed, write_dataset, write_option

pytestmark = pytest.mark.slow

LLM = """
from ragsweep.core.types import Answer, PartTraits

class Own:
    TRAITS = PartTraits(operational=frozenset({"place", "headers"}))

    def __init__(self, text, prompt=None, place="", headers=None):
        self.text = text

    def generate(self, requests, done):
        for number, _ in enumerate(requests):
            done(number, Answer(self.text, model="own"))
"""
DERIVED = "from ragsweep.parts.{} import {} as Mine\n\nclass Own(Mine):\n    pass\n"
SOURCES = {
    "own_llm": LLM,
    "own_prompt": "class Own:\n    def __init__(self, system=''):\n        self.system = system\n",
    "own_query": DERIVED.format("queries", "History"),
    "own_router": DERIVED.format("routers", "Rule"),
}
SHOWN = ["text: nine\nprompt: {_target_: own_prompt.Own}", "text: '*** nine ***'"]
"""Settings of which the ledger has every value."""

MASKED = {
    "text": "text: ${oc.env:WORDS_OF_MINE}",
    "place": "text: nine\nplace: http://reader:letmein42@127.0.0.1/v1",
    "headers": "text: nine\nheaders: {X-Mine: 'Bearer ${oc.env:WORDS_OF_MINE}'}",
    "prompt.system": "text: nine\nprompt: {_target_: own_prompt.Own, system: 'Say ${oc.env:WORDS_OF_MINE}.'}",
}
"""Keys whose value the ledger does not have, with the settings in which they are."""


def write_options(folder: Path) -> None:
    """Write a config folder with a generator of the user's own: with asterisks in a text, and with masked values."""
    head = "_target_: own_llm.Own\n"
    for n, settings in enumerate([*SHOWN, *MASKED.values()]):
        write_option(folder / "conf", f"llm/own{n}", f"{head}{settings}\n")


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sweep the generators, with prompt, query and router of the user's own."""
    folder = tmp_path_factory.mktemp("evaluated")
    write_options(folder)
    for name, text in SOURCES.items():
        (folder / f"{name}.py").write_text(text)
    options = ",".join(f"own{n}" for n in range(len(SHOWN) + len(MASKED)))
    own = [f"{key}._target_=own_{name}.Own" for key, name in [("query", "query"), ("router", "router")]]
    printed(
        folder, RUN, "-m", "--config-dir=conf", *write_dataset(folder), "query=history", "router=rule", *own,
        f"llm={options}", "name=mine", "headline=[context_ndcg]",
        PYTHONPATH=os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]),
        RAGSWEEP_TRUSTED_PACKAGES=",".join(SOURCES), WORDS_OF_MINE="a word of mine alone",
    )  # fmt: skip
    return folder


@pytest.fixture
def folder(evaluated: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter the folder as a new process does, with none of the user's modules imported."""
    monkeypatch.chdir(evaluated)
    monkeypatch.syspath_prepend(str(evaluated))
    monkeypatch.setenv("RAGSWEEP_TRUSTED_PACKAGES", ",".join(SOURCES))
    for name in SOURCES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    return evaluated


@pytest.mark.parametrize(("name", "key"), [*zip(SOURCES, ["llm", "llm", "query", "router"], strict=True)])
def test_part_that_has_changed_since_its_evaluation_is_refused_by_its_key(name: str, key: str, folder: Path) -> None:
    (folder / f"{name}.py").write_text(f"{SOURCES[name]}\nADDED = 1\n")
    try:
        with pytest.raises(InputError, match=rf"\(mine#1\): {key}: its code, .* run the config again"):
            ship(["mine#1", "--name", "handbook"])
    finally:
        (folder / f"{name}.py").write_text(SOURCES[name])


@pytest.mark.parametrize(("number", "key"), [*enumerate(MASKED, 3)])
def test_value_that_the_ledger_does_not_have_is_refused_by_its_key(number: int, key: str, folder: Path) -> None:
    with pytest.raises(InputError, match=rf"\(mine#{number}\): llm\.{key}.*: .* write it out in the config"):
        ship([f"mine#{number}", "--name", "handbook"])


def test_asterisks_of_the_user_are_no_mask(folder: Path) -> None:
    found = find_run(".ragsweep", "mine#2")
    corpus = Builder().build(found.result.run.config["dataset"], "dataset").value.load().corpus
    assert isinstance(corpus, Corpus)
    assert evaluated_graph(Builder(), found, corpus).addresses == found.result.run.addresses


@pytest.mark.nightly
def test_config_without_its_documents_is_refused_by_its_key(cwd: Path) -> None:
    (cwd / "qrels").mkdir()
    (cwd / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nd1\td2\t1\n")
    (cwd / "queries.jsonl").write_text('{"_id": "d1", "text": "It rains."}\n')
    (cwd / "corpus.jsonl").write_text('{"_id": "d1", "text": "It rains."}\n{"_id": "d2", "text": "It rains on."}\n')
    settings = ["dataset=beir", "dataset.path=.", "dataset.exclude_self=true", "retriever=bm25", "name=mine"]
    assert call(cwd, RUN, *settings, "tracking=none", "targets=none").returncode == 0
    with pytest.raises(InputError, match=r"dataset\.exclude_self=true: the config was evaluated without"):
        ship(["mine", "--name", "m", "--uri", f"sqlite:///{cwd}/mlflow.db"])
