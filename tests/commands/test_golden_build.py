"""``ragsweep golden build`` as it is typed, in process: a set that can be evaluated, the same each time, resumable."""

import json
from pathlib import Path

import pytest

from ragsweep.core.errors import ConfigError, Faults, InputError
from ragsweep.golden.golden_format import read_questions
from ragsweep_golden.building import phases as build
from ragsweep_golden.commands import golden
from ragsweep_golden.commands.review import open_review
from ragsweep_golden.sets.entries import count_filled, incoherences
from ragsweep_golden.sets.files import read_changes
from support import read_rows

THINGS = {
    "press": ("barrels", "a machine that squeezes the juice from the fruit", 41),
    "cellar": ("shelves", "a room below the house that stays cold all year", 12),
    "orchard": ("rows", "a garden in which only fruit trees are grown", 33),
    "barn": ("ladders", "a wooden building that keeps the tools dry", 8),
    "hydrometer": ("marks", "an instrument that measures the sugar of the juice", 27),
    "grafter": ("knives", "a person who joins two plants of one family", 5),
}
PAGE = """# The {0}

A {0} is {2}. The {0} contains {3} {1} of the same old make.

To clean the {0}, wash all {1} with warm water and a soft brush.

## Care of the {0}

If the {0} is damaged, call the keeper before the next morning begins.

Visitors must not touch the {1} of the {0}. The {0} needs a check of all {1} every spring.

The {0} is closed in winter because the {1} suffer from the hard frost.
"""
WORDS = ["corpus=pages", "out=set", "questions=30", "embedder=hashing", "language=en", "chunker.size=300"]


@pytest.fixture
def place(cwd: Path) -> Path:
    for n, (name, (parts, what, count)) in enumerate(THINGS.items()):
        page = cwd / "pages" / f"part{n}" / f"{name}.md"
        page.parent.mkdir(parents=True)
        page.write_text(PAGE.format(name, parts, what, count))
    return cwd


def test_a_set_is_built_gated_and_read_by_an_evaluation(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden(["build", *WORDS]) in (0, 1)
    built = read_rows(place / "set" / "golden.jsonl")
    assert len(built) == 30
    (change,) = read_changes(place / "set" / "golden.jsonl")
    assert (change["command"], change["added"]) == ("golden build", 30)
    assert sum(not one["answerable"] for one in built) == 9
    assert min(count_filled(one) for one in built if one["answerable"]) >= 42
    assert [fault for one in built for fault in incoherences(one)] == []
    faults = Faults()
    assert len(read_questions(place / "set" / "golden.jsonl", "", faults).questions) == 30
    faults.raise_any()
    report = json.loads((place / "set" / "gates.json").read_text())
    found = {one["gate"]: one["verdict"] for one in report["gates"]}
    assert {found[gate] for gate in ("G1-1", "G1-2", "G1-4", "G2-1", "G3-1", "G3-3", "G5-1", "G6-3")} == {"passed"}
    assert report["profile"] == "generated"
    assert "not_measured" not in found.values()
    for phase in range(6):
        gates = json.loads((place / "set" / f"gates-{phase}.json").read_text())["gates"]
        assert {one["gate"].split("-")[0] for one in gates} <= {f"G{phase}"}
    shown = capsys.readouterr().out
    assert "PHASE 5" in shown
    assert "MIX       factual: " in shown
    assert "ragsweep golden gates set/golden.jsonl corpus=pages embedder=minilm" in shown
    assert "ragsweep golden review set/golden.jsonl" in shown


@pytest.mark.nightly
def test_a_killed_build_goes_on_and_makes_the_same_set(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden(["build", *WORDS, "out=whole.jsonl"])
    calls: list[str] = []

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(build, "check", killed)
        with pytest.raises(KeyboardInterrupt):
            golden(["build", *WORDS])
    with monkeypatch.context() as patched:
        patched.setattr(build, "ask", lambda *_: calls.append("again"))
        golden(["build", *WORDS])
    assert calls == []
    assert (place / "set" / "golden.jsonl").read_bytes() == (place / "whole.jsonl").read_bytes()


def test_another_seed_or_corpus_is_another_build(place: Path) -> None:
    golden(["build", *WORDS])
    before = (place / "set" / "golden.jsonl").read_bytes()
    golden(["build", *WORDS, "seed=1"])
    assert (place / "set" / "golden.jsonl").read_bytes() != before
    (place / "pages" / "part0" / "press.md").write_text("# Nothing\n")
    golden(["build", *WORDS])
    assert all("part0/press.md" not in json.dumps(one["evidence"]) for one in read_rows(place / "set" / "golden.jsonl")
               if one["answerable"])  # fmt: skip


def test_another_threshold_of_near_copies_is_another_selection(place: Path) -> None:
    golden(["build", *WORDS])
    golden(["build", *WORDS, "gates.G5-2.threshold=.5"])
    golden(["build", *WORDS, "gates.G5-2.threshold=.5", "out=fresh.jsonl"])
    assert (place / "set" / "golden.jsonl").read_bytes() == (place / "fresh.jsonl").read_bytes()


def test_near_copies_stay_if_the_gate_on_them_is_removed(place: Path) -> None:
    golden(["build", *WORDS, "gates.G5-2.threshold=2"])
    golden(["build", *WORDS, "~gates.G5-2", "+profiles.mine=[G1-1]", "profile=mine", "out=fresh.jsonl"])
    assert (place / "set" / "golden.jsonl").read_bytes() == (place / "fresh.jsonl").read_bytes()


def test_a_build_does_not_replace_the_work_of_a_person(place: Path) -> None:
    golden(["build", *WORDS])
    golden(["build", *WORDS])
    built = place / "set" / "golden.jsonl"
    review = open_review(built, None, "anna")
    review.judge({"id": "1", "task": review.tasks[0]["task"], "action": "accept"})
    review.journal.finish()
    (place / "own.jsonl").write_text(
        '{"id": "a", "question": "How old is the barn?", "evidence": [], "answerable": false}'
    )
    for path in (built, place / "own.jsonl"):
        before = path.read_bytes()
        with pytest.raises(InputError, match="this build would replace questions"):
            golden(["build", *WORDS, "seed=1", f"out={path}"])
        assert path.read_bytes() == before


def test_a_mix_may_have_a_number_as_its_name(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden(["build", *WORDS, "+mixes.1={procedural: 1}", "mix=1"])
    assert "of 21, wanted 21" in capsys.readouterr().out  # of 30 questions, 9 are unanswerable


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["out=set"], "golden build: specify the documents with corpus=FOLDER or corpus=FILE"),
        (["corpus=pages"], "golden build: specify the destination: out=FOLDER, or out=FILE.jsonl"),
        (["corpus=pages", "out=set", "language=de"], "language: unsupported language 'de'"),
        (["corpus=pages", "out=set", "language=fr"], "language: no document is in fr; detected: en 6;"),
        (["corpus=pages", "out=set", "mix=generel"], "mix: no mix 'generel'; did you mean \"general\"?"),
        (["corpus=pages", "out=set", "questions=0"], "questions: must be a whole number of at least 1, got 0"),
        (["corpus=pages", "out=set", "seed=x"], "seed: must be a whole number of at least 0, got 'x'"),
        (["corpus=pages", "out=set", "embedder=null", "strata.by=clusters"], "strata.by=clusters: needs an embedder"),
        (["corpus=pages", "out=set", "+minimums.silly=3"], "minimums.silly: no such type"),
        (["pages", "out=set"], "'pages': neither an option nor KEY=VALUE"),
        (["corpus=pages (2)", "out=set"], "cannot read corpus=pages (2): "),
        (["corpus=pages", "out=set", "+strata.priorities={part0: 5}", "embedder=hashing"], "strata.shares), got 5"),
        (["corpus=pages", "out=set", "+strata.priorities={part0: a}", "embedder=hashing"], "strata.shares), got 'a'"),
        (["corpus=pages", "out=set", "+strata.priorities={part: 1}", "embedder=hashing"], "priorities.part: no strat"),
        (["corpus=pages", "out=set", "+strata.patterns={a: '*'}"], "strata.patterns.a: must be a list, such as"),
        (["corpus=pages", "out=set", "~gates.G5-2"], "gates.G5-2 is missing; add it, or list only the other gates"),
        (["corpus=pages", "out=set", "strata.shares=3"], "strata.shares: must be a list of numbers"),
        (["corpus=pages", "out=set", "strata.shares=[1, 0]", "embedder=hashing"], "in use (2) is 0; set one above 0"),
        (["corpus=pages", "out=set", "strata.cap=x"], "cap: must be a number of at least 0, such as .5, got 'x'"),
        (["corpus=pages", "out=set", "strata.cap=true"], "cap: must be a number of at least 0, such as .5, got True"),
        (["corpus=pages", "out=set", "strata.by=clusters", "strata.clusters=0"], "strata.clusters: must be a whole"),
        (["corpus=pages", "out=set", "minimums.nonsensical=x"], "minimums.nonsensical: must be a whole number"),
        (["corpus=pages", "out=set", "mix=[general]"], "mix: no mix ['general']"),
        (["corpus=pages", "out=set", "profile=[hand]"], "profile: no profile"),
        (["corpus=pages", "out=set", "gates.G1-1=1"], "gates.G1-1: must have a threshold, such as"),
        (["corpus=pages", "out=set", "+gates.G1-1.highest=.9"], "gates.G1-1: gates with a range"),
        (["corpus=pages", "out=set", "~gates.G5-5.highest"], "gates.G5-5: gates with a range"),
        (["corpus=pages", "out=set", "gates.G5-2=null"], "gates.G5-2: must have a threshold, such as"),
        (["corpus=pages", "out=set", "strata=null"], "strata: must be a mapping, got None; set single keys"),
        (["corpus=pages", "out=set", "strata.patterns=x"], "strata.patterns: must be a mapping, got 'x'"),
        (["corpus=pages", "out=set", "+strata.patterns.a=[3]"], "strata.patterns.a: must be a list, such as"),
        (["corpus=pages", "out=set", "strata.priorities=3"], "strata.priorities: must be a mapping, got 3"),
        (["corpus=pages", "out=set", "strata.shares=[]"], "strata.shares: must be a list of numbers"),
        (["corpus=pages", "out=set", "minimums=5"], "minimums: must be a mapping, got 5"),
        (["corpus=pages", "out=set", "mixes=4"], "mixes: must be a mapping, got 4"),
        (["corpus=pages", "out=set", "mixes.general.factual=x"], "mixes.general: must map question types to shares"),
        (["corpus=pages", "out=set", "profiles.generated=4"], "profiles.generated: must be a list of gates"),
        (["corpus=pages", "out=set", "embedder=hashing", "llm=openai", "llm.key_env=NO_KEY"], "set llm.key_env to an"),
        (["corpus=pages", "out=set", "gates=x"], "gates: must be a mapping, got 'x'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(place: Path, words: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as fault:
        golden(["build", *words])
    assert message in str(fault.value)


def test_documents_without_folders_are_divided_by_similarity(place: Path) -> None:
    golden(["build", *WORDS, "strata.by=clusters", "strata.clusters=3"])
    (_, *strata) = read_rows(place / "set" / "phase-0-strata.jsonl")
    assert [one["stratum"] for one in strata if one["stratum"].startswith("cluster ")]
    assert sum(len(one["documents"]) for one in strata) == 6
    for damaged in (b"", b"garbage", b"\xff"):
        (place / "set" / "phase-0-strata.jsonl").write_bytes(damaged)
        with pytest.raises(InputError, match=r"phase-0-strata\.jsonl: damaged; delete it"):
            golden(["build", *WORDS, "strata.by=clusters", "strata.clusters=3"])


def test_a_corpus_that_cannot_be_asked_about_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for page in place.glob("pages/*/*.md"):
        page.write_text("# The keeper and the old press of the house\n\nA keeper of the press.\n")
    (place / "pages" / "zh.md").write_text("归档守护进程是一个每晚压缩旧文件的后台进程。")
    assert golden(["build", *WORDS]) in (1, 3)
    shown = capsys.readouterr().out
    assert "No answerable question was found" in shown
    assert "1 of 7 documents: left out, because not in a language of the set (en)." in " ".join(shown.split())
    assert "0 of 30 questions: no other is specific and passes the gates." in " ".join(shown.split())
