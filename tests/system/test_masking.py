"""What is secret by its key, or comes from the environment through a config, is written and printed nowhere.

One sweep holds a canary in each way by which a config may get one, in a part that logs, warns of and raises what it was
given; every file below the folder it ran in is scanned, and what it printed.
"""

import json
import os
import sqlite3
import textwrap
from pathlib import Path

import pytest

from ragsweep.core import secrets
from ragsweep.core.secrets import MASK, Secrets, refuse_secrets
from support.commands import Finished, Ragsweep, runs, write_dataset, write_option
from test_canaries import found_in

pytestmark = pytest.mark.slow

KEY, ODD, OTHER, SWEPT, LITERAL, NESTED, QUOTED = (
    "cAnAry-typed/7f3a+91=", "cAnAry-odd-e4d8b5c1", "cAnAry-other-55aa01", "cAnAry-swept-0917bd", "cAnAry-literal-66fe",
    "cAnAry-nested-8c2e", "cAnAry 'it''s \"quoted\"' and long enough to be folded over several lines of a file: x y z",
)  # fmt: skip
CANARIES = (KEY, ODD, OTHER, SWEPT, LITERAL, NESTED, QUOTED)

PART = """
import logging, os
import numpy as np
from ragsweep.core.types import PartTraits
from ragsweep.parts.ranking import arrange

class Leaky:
    TRAITS = PartTraits(version="1", operational=frozenset({"api_key", "passwd", "note", "credentials"}))

    def __init__(self, api_key=None, passwd=None, note=None, credentials=None, fail=False):
        self.given = [api_key, passwd, note, credentials]
        self.fail = fail

    def build(self, texts):
        return {"length": np.array([len(text) for text in texts])}

    def retrieve(self, index, queries, depth):
        logging.getLogger("leaky").warning("given %s, and %s", self.given, os.environ["ODDLY_NAMED"])
        if self.fail:
            raise RuntimeError(f"refused with {self.given} and {os.environ['ODDLY_NAMED']}")
        scores = np.tile(-index["length"].astype(float), (len(queries), 1))
        positions = np.tile(np.arange(scores.shape[1]), (len(queries), 1))
        return arrange(positions, scores, depth)
"""
OPTION = f"""
_target_: leaky.Leaky
api_key: null
passwd: {LITERAL}
note: ${{oc.env:ODDLY_NAMED}}
credentials:
  user: anybody
  words: {json.dumps(QUOTED)}
  more: [{{password: {NESTED}}}]
fail: false
"""
SWEEP = """
# @package _global_
hydra:
  sweeper:
    params:
      retriever.fail: "true,false"
      +noted: ${oc.env:SWEPT}
"""
TWO = """
# @package _global_
hydra:
  sweeper:
    params:
      +noted: ${oc.env:SWEPT},${oc.env:OTHER}
"""
VARIABLES = {"NAME": KEY, "ODDLY_NAMED": ODD, "OTHER": OTHER, "SWEPT": SWEPT, "RAGSWEEP_TRUSTED_PACKAGES": "leaky"}


def leaking(folder: Path, ragsweep: Ragsweep, *more: str) -> Finished:
    """Sweep with the part that repeats what it was given."""
    (folder / "leaky.py").write_text(textwrap.dedent(PART))
    for name, text in (("retriever/leaky", OPTION), ("sweeps/leak", SWEEP), ("sweeps/two", TWO)):
        write_option(folder / "own", name, text)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return ragsweep(
        "--config-dir", str(folder / "own"), *write_dataset(folder)[:-1], "retriever=leaky", "depth=4", "top_k=2",
        "headline=[context_ndcg]",
        "retriever.api_key=${oc.env:NAME}", "+my.api_key=${oc.env:NAME}", "+my.text=x-${oc.env:OTHER}-y", *more,
        PYTHONPATH=path, **VARIABLES,
    )  # fmt: skip


def leaks(folder: Path, printed: str) -> dict[str, list[str]]:
    """Name the places where a canary is, by canary."""
    own = {*(folder / "own").rglob("*")}
    return {secret: places for secret in CANARIES if (places := found_in(folder, printed, own, secret))}


def test_no_secret_of_a_sweep_is_found(ragsweep: Ragsweep, tmp_path: Path) -> None:
    done = leaking(tmp_path, ragsweep, "-m", "sweeps=leak")
    assert done.returncode == 1, done.stderr  # one of the two fails
    assert leaks(tmp_path, done.stdout + done.stderr) == {}
    (parent,), children = runs(tmp_path, "sweep"), runs(tmp_path, "config")
    assert {run.info.status for run in children} == {"FINISHED", "FAILED"}
    assert MASK in str([run.data.tags for run in children])  # the failure quotes what is not shown
    assert children[0].data.params["retriever.passwd"] == MASK
    assert parent.info.status == "FAILED"
    logs = "".join(path.read_text() for path in tmp_path.rglob("*.log"))
    assert "refused with" in logs  # what was said is there, less the secrets
    overrides = [path.read_text() for path in tmp_path.rglob("overrides.yaml")]
    assert all("retriever.api_key=$\\{oc.env\\:NAME\\}" in text for text in overrides)  # its name is none


@pytest.mark.nightly
def test_no_secret_of_a_single_config_or_of_a_printed_one_is_found(ragsweep: Ragsweep, tmp_path: Path) -> None:
    done = leaking(tmp_path, ragsweep, "tracking=none")
    assert done.returncode == 0, done.stderr
    shown = leaking(tmp_path, ragsweep, "--cfg", "job", "--resolve")
    assert "passwd: ***" in shown.stdout, shown.stderr
    assert leaks(tmp_path, done.stdout + done.stderr + shown.stdout + shown.stderr) == {}


@pytest.mark.nightly
def test_configs_that_differ_in_a_secret_keep_apart_and_are_found_again(ragsweep: Ragsweep, tmp_path: Path) -> None:
    sweep = ["-m", "sweeps=two", "tracking=none"]
    first, again = leaking(tmp_path, ragsweep, *sweep), leaking(tmp_path, ragsweep, *sweep)
    assert first.returncode == again.returncode == 0, first.stderr
    assert leaks(tmp_path, first.stdout + first.stderr + again.stdout) == {}
    with sqlite3.connect(tmp_path / ".ragsweep" / "ledger.db") as connection:
        ((names,),) = connection.execute("SELECT names FROM sweeps").fetchall()
    assert json.loads(names) == [f"noted={MASK}"] * 2
    assert "is already finished" in again.stdout
    assert f"#1 noted={MASK}" in first.stdout


@pytest.mark.parametrize(
    "value", ["1", "true", "cpu", "12345678.5", "/usr/share", "/tmp/nothing-is-here-yet/store", "short12"]
)
def test_ordinary_value_of_the_environment_is_shown(value: str) -> None:
    known = Secrets()
    known.add_variable(value)
    assert known.mask_text(f"it is {value}") == f"it is {value}"


def test_value_of_the_environment_that_may_be_a_secret_is_masked_in_every_spelling() -> None:
    known = Secrets()
    known.add_variable("odd/7f3a 91c2'x")
    for text in ("odd/7f3a 91c2'x", "odd%2F7f3a%2091c2%27x", '"odd/7f3a 91c2\'x"'):
        assert "7f3a" not in known.mask_text(f"a {text} b")


def test_short_secret_is_masked_where_it_stands_by_itself() -> None:
    known = Secrets()
    known.add("qzxw", named=True)
    assert known.mask_text("qzxw: aqzxwb 'qzxw'") == f"{MASK}: aqzxwb '{MASK}'"
    known.add("qz", named=True)  # too short to be told from a word
    assert known.mask_text("qz") == "qz"


def test_variables_are_no_secrets_however_they_are_quoted() -> None:
    named = ["a.api_key='${oc.env:X}','${oc.env:Y}'", "my={api_key: '${oc.env:X}'}", "a.two_pass=true"]
    refuse_secrets(named)
    with pytest.raises(secrets.ConfigError, match=r"a\.api_key"):
        refuse_secrets([*named, "a.api_key='${oc.env:X}',typed-out"])
