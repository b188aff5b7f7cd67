"""The rules of docs/architecture.md, held by a test."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from ragsweep.trust import PARTS as PARTS_TO_CHOOSE

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ragsweep"
FILES = sorted(SOURCE.rglob("*.py"))
PLUGINS = sorted((ROOT / "src" / "hydra_plugins").rglob("*.py"))
PARTS = {"chunkers", "datasets", "embedders", "generators", "indexes", "judges", "metrics", "queries", "rerankers",
         "retrievers", "routers", "systems"}  # fmt: skip
FLOORS = [
    {"data", "errors", "identity", "results", "types"},
    {"abstention", "anchors", "answering", "blobs", "calls", "claims", "clusters", "comparable", "corpora", "database",
     "digests", "evidence", "executor", "fences", "fusion", "gap", "golden", "golden_format", "graph", "hydra_settings",
     "inference", "injections", "interruption", "json_paths", "judgements", "judging", "languages", "latency",
     "leases", "ledger", "ledger_file", "located", "locks", "lookalikes", "model_files", "notebooks", "noting",
     "objectives", "outcomes", "pages", "partition", "passages", "prices", "prompts", "quadrants", "questions",
     "racing", "ranking", "reading", "reasons", "record_format", "remembering", "rendered", "reordering",
     "responses", "room", "rows", "scoring", "seals", "searched", "secrets", "sections", "sentences", "shards",
     "sources", "spans", "statistics", "store", "storekeeping", "tables", "targets", "text_files", "tokens", "tracking",
     "trec", "trust", "verdict"},
    PARTS,
    {"building", "evaluation", "existing", "foretelling", "generation", "laid", "pipeline", "querying", "routing",
     "rungs"},
    {"app", "clashes", "cli", "closing", "commands", "composition", "confidential", "finalists", "handing", "hostile",
     "jobs", "looking", "mirroring", "multirun", "plain", "races", "recording", "report", "searching", "sharing",
     "sweeping", "terminal"},
]  # fmt: skip
APART = {"testing", "__init__", "__main__"}  # shipped contract suites: they may look at everything
HEAVY = {"torch", "sentence_transformers", "transformers", "faiss", "bm25s", "rank_bm25", "mlflow", "pandas", "pyarrow",
         "matplotlib", "chonkie", "optuna", "ragas", "Stemmer", "scipy", "rich", "bs4", "docutils", "markdown_it",
         "httpx", "pydantic", "pypdf", "qdrant_client", "sentencex", "tokenizers", "rouge_score",
         "sacrebleu"}  # fmt: skip


def module(path: Path) -> str:
    """Name the module of our package that a file belongs to: its first part below ragsweep."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path, *, only_top: bool = False) -> Iterator[str]:
    """Yield the absolute names that a file imports."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in tree.body if only_top else ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def own(path: Path) -> set[str]:
    """Name our own modules that a file imports, other than its own."""
    found = {name.split(".")[1] for name in imports(path) if name.startswith("ragsweep.")}
    return found - {module(path)}


def floor(name: str) -> int:
    return next(n for n, members in enumerate(FLOORS) if name in members)


def test_every_module_has_its_floor() -> None:
    assert {module(path) for path in FILES} - APART == set().union(*FLOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_down_or_along_a_floor_and_no_part_imports_another(path: Path) -> None:
    if module(path) in APART:
        return
    here = floor(module(path))
    known = {name for name in own(path) if name not in APART and any(name in members for members in FLOORS)}
    assert {name for name in known if floor(name) > here} == set()
    if module(path) in PARTS:
        assert known & PARTS == set()


def test_modules_import_in_no_circle() -> None:
    graph = {module(path): set() for path in FILES}
    for path in FILES:
        graph[module(path)] |= own(path) & graph.keys()
    assert len(list(TopologicalSorter(graph).static_order())) == len(graph)


def test_every_kind_of_part_can_be_chosen() -> None:
    assert {name.partition(".")[2] for name in PARTS_TO_CHOOSE} == {
        *PARTS,
        "prices",
        "prompts",
        "races",
        "targets",
        "tracking",
    }


def test_wiring_names_no_part() -> None:
    for name in ("pipeline", "existing", "generation", "routing", "evaluation", "building"):
        assert own(SOURCE / f"{name}.py") & PARTS == set()


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("mlflow", {"tracking"}),
        (
            "omegaconf",
            {
                "app",
                "composition",
                "confidential",
                "handing",
                "hostile",
                "jobs",
                "looking",
                "multirun",
                "plain",
                "searching",
                "sweeping",
            },
        ),
        ("hydra", {"composition", "handing", "hostile", "jobs", "searching"}),
        ("optuna", set()),
        ("rich", {"terminal"}),
        ("matplotlib", {"report"}),
        ("ragas", {"metrics"}),
    ],
)
def test_library_is_known_to_few(library: str, allowed: set[str]) -> None:
    users = {module(path) for path in FILES if any(name.split(".")[0] == library for name in imports(path))}
    assert users - {"testing"} <= allowed


@pytest.mark.parametrize("path", [*FILES, *PLUGINS], ids=lambda path: path.stem)
def test_heavy_libraries_are_imported_where_they_are_used(path: Path) -> None:
    assert {name.split(".")[0] for name in imports(path, only_top=True)} & HEAVY == set()


@pytest.mark.parametrize("path", [*FILES, *PLUGINS], ids=lambda path: path.stem)
def test_files_and_functions_are_short_and_take_few_parameters(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 400
    assert path.stem not in {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} is too long"
            taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            assert node.name == "__init__" or len([a for a in taken if a.arg not in ("self", "cls")]) <= 6, node.name


BANNED = {"pickle", "cPickle", "cloudpickle", "dill", "shelve", "joblib", "marshal"}
CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "yaml.load", "yaml.load_all"}
METHODS = {"system", "popen", "read_pickle", "unsafe_load", "full_load"}


@pytest.mark.parametrize("path", [*FILES, *PLUGINS], ids=lambda path: path.stem)
def test_nothing_that_is_read_can_run_code(path: Path) -> None:
    assert {name.split(".")[0] for name in imports(path)} & BANNED == set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in CALLS, called
            assert called.rpartition(".")[2] not in METHODS, called
            flags = {word.arg: ast.unparse(word.value) for word in node.keywords}
            for risk in ("shell", "allow_pickle", "trust_remote_code"):
                assert flags.get(risk, "False") == "False", risk


@pytest.mark.parametrize("arguments", [["run", "--help"], ["run", "plan=true", "retriever=bm25"], ["run", "plan=true"]])
def test_asking_loads_no_model_library(arguments: list[str], tmp_path: Path) -> None:
    code = (
        "import sys\nfrom ragsweep.cli import main\n"
        f"sys.argv = ['ragsweep', *{arguments!r}]\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        "loaded = {'torch', 'sentence_transformers', 'mlflow', 'transformers'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


CORE = (
    "ragsweep",
    "ragsweep.cli",
    "ragsweep.sweeping",
    "ragsweep.jobs",
    "ragsweep.app",
    "ragsweep.tracking",
    "ragsweep.metrics",
)
"""What every command is made of; `ragsweep.metrics` holds those that ask ragas, when they are asked."""


def test_the_core_imports_no_langchain_no_ragas_and_no_diskcache() -> None:
    code = (
        f"import sys\nfor name in {CORE!r}: __import__(name)\n"
        "loaded = {'langchain', 'langchain_core', 'langchain_community', 'ragas', 'diskcache'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
