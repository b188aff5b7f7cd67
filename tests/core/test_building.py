"""A part is what its config says, checked before anything is loaded."""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ragsweep.core import traits
from ragsweep.core.building import Builder, check_members, public_name
from ragsweep.core.errors import ConfigError
from ragsweep.core.trust import TRUSTED, find_class
from ragsweep.core.types import HybridRetriever, TextRetriever, VectorRetriever
from ragsweep.parts.rerankers import NoReranker

BM25 = "ragsweep.parts.retrievers.Bm25"
FLAT = {"_target_": "ragsweep.parts.indexes.Flat"}
VECTOR = "ragsweep.parts.retrievers.Vector"
HNSW = {"_target_": "ragsweep.parts.indexes.Hnsw", "m": 0}
EMPTY = {"_target_": "ragsweep.parts.embedders.HashingEmbedder", "ngram": 0}
HYBRID = "ragsweep.parts.retrievers.HybridRrf"
LEGS = {"a": {"_target_": BM25, "k1": 0.0, "backend": "rank_bm25"}}
METRICS = "ragsweep.parts.metrics"
NOWHERE = {"_target_": VECTOR, "embedder": {"_target_": "ragsweep.nowhere.X"}, "index": FLAT, "exact": FLAT}


def test_keys_become_constructor_arguments() -> None:
    part = Builder().build({"_target_": BM25, "k1": 1.2}, "retriever")
    assert part.value.k1 == 1.2
    assert part.spec.parameters["k1"] == 1.2


def test_default_written_out_is_the_same_part_in_any_order_of_keys() -> None:
    builder = Builder()
    assert builder.build({"_target_": BM25}, "a") is builder.build({"b": 0.75, "k1": 1.5, "_target_": BM25}, "b")


def test_nested_part_appears_as_a_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRUSTED, "support")
    embedder = {"_target_": "support.parts.Letters"}
    part = Builder().build({"_target_": VECTOR, "embedder": embedder, "index": FLAT, "exact": FLAT}, "r")
    assert part.spec.parameters["embedder"].target == "support.parts.Letters"
    assert type(part.value.embedder).__name__ == "Letters"


def test_operational_parameter_is_no_part_of_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRUSTED, "support")
    builder = Builder()
    small = builder.build({"_target_": "support.parts.Letters", "batch_size": 1}, "embedder")
    large = builder.build({"_target_": "support.parts.Letters", "batch_size": 64}, "embedder")
    assert small.spec.digest == large.spec.digest
    assert small.value is not large.value
    assert (
        builder.build({"_target_": "support.parts.Letters", "weight": 2.0}, "embedder").spec.digest != small.spec.digest
    )


def test_part_holds_the_part_that_its_own_config_names_also_where_they_differ_only_operationally(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(TRUSTED, "support")
    builder, embedder = Builder(), {"_target_": "support.parts.Letters"}
    for size in (1, 64, 1):
        leg = {"_target_": VECTOR, "embedder": {**embedder, "batch_size": size}, "index": FLAT, "exact": FLAT}
        part = builder.build({"_target_": HYBRID, "legs": {"vector": leg}}, "retriever").value
        assert part.legs["vector"].embedder.batch_size == size


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"_target_": BM25, "k2": 1}, r'retriever\.k2: Bm25 has no parameter "k2"; did you mean "k1"\?'),
        ({"_target_": BM25, "k1": "big"}, r"retriever\.k1: must be a number, got 'big'"),
        ({"_target_": BM25, "k1": True}, r"retriever\.k1: must be a number, got True"),
        (
            {"_target_": BM25, "k1": -1.0},
            r"^retriever\.k1 must be at least 0, got -1",
        ),  # once, not "retriever: retriever.k1"
        ({"_target_": BM25.replace("Bm25", "BM26")}, r'no class "BM26" in ragsweep\..*; did you mean "Bm25"'),
        ({"_target_": "ragsweep.parts.retreivers.Bm25"}, r'not a built-in part; did you mean "ragsweep\.parts\.retrie'),
        ({"_target_": "os.system", "command": "true"}, r'package "os" of "os\.system" is not trusted; .*TRUSTED'),
        ({"_target_": "ragsweep.sweep.running.session.os.system"}, r'session\.os\.system" is not a built-in part'),
        ({"_target_": "ragsweep.sweep.running.session.Session"}, r'running\.session\.Session" is not a built-in part'),
        ({"_target_": "ragsweep.parts.targets.Protocol"}, r'no class "Protocol" in ragsweep\.parts\.targets'),
        ({"_target_": "ragsweep.parts.retrievers.bm25"}, r'no class "bm25"'),
        ({"_target_": ["ragsweep.parts.retrievers.Bm25"]}, r"must be a class with its module|is not trusted"),
        ({"_target_": "Shortest"}, r"retriever\._target_: must be a class with its module, .*got 'Shortest'"),
        (
            {"_target_": f"{METRICS}.TokenF1", "language": "german"},
            r"\.language: must be 'label' or 'english' or 'fren",
        ),
        (
            {"_target_": "ragsweep.parts.systems.Python", "function": "a.b", "refusals": "unknown"},
            r"""^retriever\.refusals: must be a list, got 'unknown'; write 'retriever\.refusals=\["unknown"\]'""",
        ),
        ({"_target_": HYBRID, "legs": None}, r"retriever\.legs: must be a mapping, got None"),
        (
            {"_target_": f"{METRICS}.TaskSuccess", "criteria": {"a": 3}},
            r"\.criteria: must be a mapping of mappings, got",
        ),
        ({**NOWHERE, "embedder": None}, r"retriever\.embedder: must be a part \(a mapping with _target_\), got None"),
        ({"_target_": HYBRID, "legs": {"one": {"_target_": BM25, "k1": -1}}}, r"^retriever\.legs\.one\.k1 must be at"),
        (
            {"_target_": HYBRID, "legs": LEGS},
            r"^retriever\.legs\.a\.k1 is 0, .*; use retriever\.legs\.a\.backend=bm25s",  # not retriever.k1
        ),
        ({**NOWHERE, "embedder": EMPTY}, r"^retriever\.embedder: embedder\.ngram must be"),  # perhaps ${embedder}
        (
            {**NOWHERE, "embedder": {**EMPTY, "ngram": 4}, "exact": HNSW},
            r"^retriever\.exact\.m must be at least 2, got 0",
        ),
        ({"_target_": VECTOR}, r"retriever\.embedder: Vector requires a value"),
        (NOWHERE, r"retriever\.embedder\._target_"),
        ({"_target_": "support.parts.Words", TRUSTED: "support"}, "not trusted"),  # a config cannot extend trust
        ({"_target_": BM25, "_partial_": True}, r'has no parameter "_partial_"'),
        ("bm25", r"retriever: must be a part"),
    ],
)
def test_error_of_a_part_names_its_key(node: object, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRUSTED, raising=False)
    with pytest.raises(ConfigError, match=message):
        Builder().build(node, "retriever")


PACKAGE = {
    "owned_parts/__init__.py": "",
    "owned_parts/mine.py": "from owned_parts import limits\n"
    "from ragsweep.core.types import PartTraits\n\nFACTOR = 1\n\n\nclass Mine:\n    pass\n\n\n"
    "class Stated:\n    TRAITS = PartTraits(version='1')\n",
    "owned_parts/limits.py": "def low():\n    from .deep import words\n    return words\n",
    "owned_parts/deep/__init__.py": "import owned_parts.deep.words\n",
    "owned_parts/deep/words.py": "WORDS = 1\n",
    "owned_parts/apart.py": "APART = 1\n",
    "owned_alone.py": "import owned_beside\n\n\nclass Alone:\n    pass\n\n\n"
    "class Open:\n    def __init__(self, **options):\n        pass\n",
    "owned_beside.py": "BESIDE = 1\n",
    "owned_heir.py": "from ragsweep.parts.rerankers import NoReranker\n\n\nclass Heir(NoReranker):\n    pass\n",
    "owned_odd.py": "from __future__ import annotations\n"
    "from dataclasses import dataclass, field\nfrom typing import TYPE_CHECKING, Mapping\n"
    "if TYPE_CHECKING:\n    from collections.abc import Sequence\n\n\n"
    "class Hinted:\n    def __init__(self, words: Sequence[str]) -> None:\n        self.words = words\n\n\n"
    "class Bare:\n    def __init__(self, words: Mapping) -> None:\n        self.words = words\n\n\n"
    "class Listed:\n    def __init__(self, words: list[str]) -> None:\n        self.words = words\n\n\n"
    "@dataclass\nclass Made:\n    words: list = field(default_factory=list)\n\n\n"
    "class Facts:\n    def fingerprint(self):\n        return {'x': object}\n\n\n"
    "class File:\n    def fingerprint(self):\n        open('/nowhere/words')\n",
}


class TestPartsOfOthers:
    """The identity of a part of another package is its module and what that imports of its own package."""

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv(TRUSTED, "owned_parts,owned_alone,owned_odd,owned_heir")
        for name, text in PACKAGE.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    def digest(self, target: str) -> str:
        """Return the part's digest in a process that starts now."""
        for name in [name for name in sys.modules if name.startswith("owned_")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        return Builder().build({"_target_": target}, "x").spec.digest

    @pytest.mark.parametrize(
        ("target", "edited", "another"),
        [
            ("owned_parts.mine.Mine", "owned_parts/mine.py", True),
            ("owned_parts.mine.Mine", "owned_parts/limits.py", True),
            ("owned_parts.mine.Mine", "owned_parts/deep/words.py", True),
            ("owned_parts.mine.Mine", "owned_parts/__init__.py", True),
            ("owned_parts.mine.Mine", "owned_parts/apart.py", False),
            ("owned_parts.mine.Stated", "owned_parts/mine.py", False),
            ("owned_alone.Alone", "owned_alone.py", True),
            ("owned_alone.Alone", "owned_beside.py", True),
        ],
    )
    def test_edit_of_its_imports_makes_it_another(self, folder: Path, target: str, edited: str, another: bool) -> None:
        before = self.digest(target)
        assert self.digest(target) == before
        (folder / edited).write_text(PACKAGE[edited] + "CONSTANT = 2\n")
        assert (self.digest(target) != before) is another

    @pytest.mark.usefixtures("folder")
    def test_a_later_version_of_the_part_from_which_it_inherits_makes_it_another(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = []
        for version in ("1", "2", "3"):
            monkeypatch.setattr(NoReranker, "TRAITS", replace(NoReranker.TRAITS, version=version))
            traits._declared.cache_clear()
            found.append(self.digest("owned_heir.Heir"))
        monkeypatch.undo()
        traits._declared.cache_clear()
        assert len(set(found)) == 3

    def test_packages_beside_a_module_are_not_its_own(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        installed = folder / "site-packages"
        installed.mkdir()
        monkeypatch.syspath_prepend(installed)
        for name in ("owned_alone.py", "owned_beside.py"):
            (installed / name).write_text(PACKAGE[name])
        before = self.digest("owned_alone.Alone")
        (installed / "owned_beside.py").write_text("BESIDE = 2\n")
        assert self.digest("owned_alone.Alone") == before

    @pytest.mark.usefixtures("folder")
    @pytest.mark.parametrize(
        ("node", "message"),
        [
            ({"_target_": "owned_alone.Open"}, r"x: Open accepts \*\*options; name its parameters instead$"),
            ({"_target_": "owned_alone.Open", "a": 1}, r"x: Open accepts \*\*options; name its parameters instead$"),
            ({"_target_": "owned_odd.Made"}, r"x\.words: <factory> cannot be part .*; add words to the config, "),
            ({"_target_": "owned_odd.Facts"}, r"x: Facts\.fingerprint must return a mapping of strings, got \{'x'"),
            ({"_target_": "owned_odd.File"}, r"x: .*No such file or directory: '/nowhere/words'$"),
            (
                {
                    "_target_": VECTOR,
                    "embedder": {"_target_": "owned_odd.Made", "words": []},
                    "index": FLAT,
                    "exact": FLAT,
                },
                r"x\.embedder: Made lacks embed_documents, embed_queries; implement ragsweep\.core\.types\.Embedder",
            ),
            ({"_target_": "owned_odd.Listed", "words": "the"}, r"x\.words: must be a list, got 'the'; write 'x\."),
        ],
    )
    def test_part_without_an_identity_is_refused(self, node: dict[str, object], message: str) -> None:
        with pytest.raises(ConfigError, match=f"^{message}"):
            Builder().build(node, "x")

    @pytest.mark.usefixtures("folder")
    @pytest.mark.parametrize(("name", "words"), [("Hinted", ["a"]), ("Bare", {"a": 1}), ("Made", ["a"])])
    def test_hint_that_cannot_be_checked_does_no_harm(self, name: str, words: object) -> None:
        assert Builder().build({"_target_": f"owned_odd.{name}", "words": words}, "x").value.words == words

    def test_module_that_cannot_be_parsed_still_counts(self, folder: Path) -> None:
        (folder / "owned_parts/limits.py").write_text("def low():\n    import owned_parts.apart\n")
        (folder / "owned_parts/apart.py").write_text("never imported (")
        before = self.digest("owned_parts.mine.Mine")
        (folder / "owned_parts/apart.py").write_text("never imported )")
        assert self.digest("owned_parts.mine.Mine") != before


CONF = Path(__file__).parents[2] / "conf"
TARGETS = sorted({line.split()[-1] for path in CONF.rglob("*.yaml") for line in path.read_text().splitlines()
                  if line.strip().startswith("_target_: ragsweep.")})  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_our_parts_are_named_in_specs_as_configs_name_them(target: str) -> None:
    assert public_name(find_class(target, "key")) == target


def test_part_that_fits_no_protocol_is_refused_with_what_it_lacks_of_the_nearest() -> None:
    class Half:
        def build(self, texts: Sequence[str]) -> None: ...

    lacks = r"retriever: Half lacks retrieve; implement ragsweep\.core\.types\.TextRetriever"
    with pytest.raises(ConfigError, match=lacks):
        check_members(Half(), (VectorRetriever, TextRetriever, HybridRetriever), "retriever")
    check_members(Builder().build({"_target_": BM25}, "retriever").value, (VectorRetriever, TextRetriever), "retriever")
