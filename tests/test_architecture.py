"""The rules of docs/architecture.md, held by a test."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from ragsweep.core.trust import PARTS as PARTS_TO_CHOOSE
from ragsweep_serving.commands.ship import PACKAGES

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ragsweep"
FILES = sorted(SOURCE.rglob("*.py"))
BESIDE = ("ragsweep_golden", "ragsweep_serving")
"""Packages that import ragsweep, and that only its command line reaches, by their entry points."""
BESIDE_FILES = [path for name in BESIDE for path in sorted((ROOT / "src" / name).rglob("*.py"))]
SWEEPER = ROOT / "src" / "optuna_sweeper"
"""The body of the sweeper on Optuna, for any Hydra program."""
PLUGINS = ROOT / "src" / "hydra_plugins"
SHIPPED = [*FILES, *BESIDE_FILES, *(path for folder in (SWEEPER, PLUGINS) for path in sorted(folder.rglob("*.py")))]
VAGUE = {"utils", "util", "common", "helpers", "helper", "base", "manager", "misc"}
FLOORS = (
    ("core",),
    ("golden", "services", "stats"),
    ("parts",),
    ("stages",),
    ("evaluation",),
    ("records", "report"),
    ("sweep",),
    ("commands",),
)
"""The packages from the ground up: each imports only from floors below its own, none from beside it."""

INSIDE_SWEEP = ("composing", "running", "searching", "concluding")
"""The packages of `sweep` from the ground up: each imports only those before it; `preparing` and `sweeping`, any."""

GROUPS = {"chunkers", "datasets", "embedders", "generators", "indexes", "judges", "metrics", "outputs", "queries",
          "rerankers", "retrievers", "routers", "systems", "tracking"}  # fmt: skip
"""The folders of parts; what several of them share lies beside them."""

APART = {"testing", "__main__"}  # shipped contract suites: they may look at everything
HEAVY = {"torch", "sentence_transformers", "transformers", "faiss", "bm25s", "rank_bm25", "mlflow", "pandas", "pyarrow",
         "matplotlib", "chonkie", "optuna", "ragas", "Stemmer", "scipy", "rich", "bs4", "docutils", "markdown_it",
         "httpx", "lancedb", "pgvector", "psycopg", "pydantic", "pypdfium2", "qdrant_client", "sentencex", "tokenizers",
         "rouge_score", "sacrebleu", "plotly",
         "onnx", "onnxruntime"}  # fmt: skip


def package(path: Path) -> str:
    """Name the package of ours that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def module(path: Path) -> str:
    """Name a file as it is imported."""
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    return name.removesuffix(".__init__")


def place(path: Path) -> str:
    """Name the module or folder right below its package that a file belongs to."""
    return path.relative_to(SOURCE).parts[1].removesuffix(".py") if len(path.relative_to(SOURCE).parts) > 1 else ""


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path: Path, *, only_top: bool = False) -> frozenset[str]:
    """List the absolute names that a file imports at run time."""
    typing_only = {
        id(inner)
        for node in nodes(path)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    tree = nodes(path)[0]
    assert isinstance(tree, ast.Module)
    for node in tree.body if only_top else nodes(path):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            names.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update((node.module, *(f"{node.module}.{name.name}" for name in node.names)))
    return frozenset(names)


MODULES = {module(path): path for path in [*FILES, *BESIDE_FILES, *sorted(SWEEPER.rglob("*.py"))]}


def own(path: Path) -> set[Path]:
    """List our own files that a file imports."""
    return {MODULES[name] for name in imports(path) if name in MODULES} - {path}


def floor(name: str) -> int:
    return next(n for n, members in enumerate(FLOORS) if name in members)


def test_every_package_has_its_floor_and_a_sentence() -> None:
    packages = {path.name for path in SOURCE.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert packages - APART == {name for members in FLOORS for name in members}
    assert {path.name for path in SOURCE.glob("*.py")} == {"__main__.py"}
    for name in packages:
        assert (ast.get_docstring(ast.parse((SOURCE / name / "__init__.py").read_text())) or "").endswith(".")


def test_the_table_of_rooms_names_the_modules_there_are() -> None:
    """Rows of docs/architecture.md: floor, package, sentence, modules; what stands in parentheses is an aside."""
    rows = [line.split("|") for line in (ROOT / "docs" / "architecture.md").read_text().splitlines()]
    table = {row[2].strip(" `"): row for row in rows if len(row) == 6}
    floors = {name: int(row[1]) for name, row in table.items() if row[1].strip().isdigit()}
    assert floors == {name: number for number, members in enumerate(FLOORS, start=1) for name in members}
    nested = [SOURCE / "sweep" / name for name in INSIDE_SWEEP]
    beside = [*(ROOT / "src" / name for name in BESIDE), SWEEPER]
    for folder in [*(SOURCE / name for name in floors), *nested, *beside]:
        name = f"sweep/{folder.name}" if folder in nested else folder.name
        row = table[name]
        modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or list(path.glob("*.py"))}
        named = set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", row[4])))
        assert named == modules - {"__init__"}, name


def test_imports_go_down_and_no_group_of_parts_imports_another() -> None:
    wrong = []
    for path in FILES:
        if package(path) in APART:
            continue
        ours = {one for one in own(path) if one.is_relative_to(SOURCE)}
        others = {one for one in ours if package(one) not in {package(path), *APART}}
        wrong += [(path, one) for one in others if floor(package(one)) >= floor(package(path))]
        if package(path) == "parts" and place(path) in GROUPS:
            groups = {place(one) for one in ours if package(one) == "parts"} & GROUPS
            wrong += [(path, group) for group in groups - {place(path)}]
    assert wrong == []


def test_packages_of_sweep_import_only_those_below() -> None:
    order = {name: number for number, name in enumerate(INSIDE_SWEEP)}
    files = [path for path in FILES if package(path) == "sweep"]
    modules = {"__init__", "compose", "preparing", "races", "racing", "sweeping"}
    assert {place(path) for path in files} == modules | {*INSIDE_SWEEP}
    wrong = [
        (path, one)
        for path in files
        for one in own(path) & set(files)
        if place(path) in order and order.get(place(one), -1) > order[place(path)]
    ]
    assert wrong == []


def test_packages_beside_are_imported_by_nobody_not_even_each_other() -> None:
    for name in BESIDE:
        others = [path for path in SHIPPED if not path.is_relative_to(ROOT / "src" / name)]
        assert [path for path in others if any(one.split(".")[0] == name for one in imports(path))] == []


def test_the_sweeper_on_optuna_imports_nothing_of_ragsweep() -> None:
    files = [path for folder in (SWEEPER, PLUGINS / "optuna_sweeper") for path in sorted(folder.rglob("*.py"))]
    assert len(files) > 10
    assert {path: name for path in files for name in imports(path) if name.startswith("ragsweep")} == {}


def test_a_shipped_model_contains_each_of_our_packages_that_its_code_imports() -> None:
    files = [path for package in PACKAGES for path in package.rglob("*.py")]
    ours = {path.name for path in (ROOT / "src").iterdir()}
    imported = {name.partition(".")[0] for path in files for name in imports(path)}
    assert imported & ours == {package.name for package in PACKAGES}
    assert sorted(PACKAGES) == sorted(ROOT / "src" / package.name for package in PACKAGES)


def test_modules_import_in_no_circle() -> None:
    files = [*FILES, *BESIDE_FILES, *SWEEPER.rglob("*.py")]
    graph = {path: own(path) for path in files if path.name != "__init__.py"}
    order = list(TopologicalSorter(graph).static_order())
    assert len([path for path in order if path in graph]) == len(graph)


def test_chains_of_imports_and_files_are_short_and_few_expressions_are_formatted_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "benchmarks")])
    from house import import_graph, longest_chain, packages

    graph = import_graph(ROOT / "src")
    assert len(longest_chain(graph, graph)) <= 14
    heights = {name: len(longest_chain(graph, files)) for name, files in packages(graph, ROOT / "src").items()}
    assert max(heights.values()) <= 7
    assert heights["ragsweep/report"] <= 6
    texts = [path.read_text() for path in graph]
    assert sum(len(text.splitlines()) > 300 for text in texts) <= 6
    assert sum(text.count("# fmt: skip") for text in texts) <= 30


def test_every_kind_of_part_can_be_chosen() -> None:
    named = {name.removeprefix("ragsweep.") for name in PARTS_TO_CHOOSE}
    chosen = {*GROUPS, "prices", "prompts", "targets"}
    assert named == {*(f"parts.{name}" for name in chosen), "sweep.races"}


def test_wiring_names_no_part() -> None:
    files = [*(SOURCE / "evaluation").rglob("*.py"), SOURCE / "core" / "building.py"]
    assert {place(one) for path in files for one in own(path) & set(FILES) if package(one) == "parts"} & GROUPS == set()


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("mlflow", {"parts/tracking"}),
        ("omegaconf", {"sweep"}),
        ("hydra", {"sweep"}),
        ("optuna", set()),
        ("rich", {"report/terminal", "report/progress"}),
        ("matplotlib", {"report/plots"}),
        ("ragas", {"parts/metrics"}),
    ],
)
def test_library_is_known_to_few(library: str, allowed: set[str]) -> None:
    users = {path for path in FILES if any(name.split(".")[0] == library for name in imports(path))}
    rooms = {path: {package(path), f"{package(path)}/{place(path)}"} for path in users}
    assert [path for path, names in rooms.items() if not names & {*allowed, "testing"}] == []


def test_heavy_libraries_are_imported_where_they_are_used() -> None:
    files = [path for path in SHIPPED if path.stem != "mlflow_model"]  # MLflow runs it; we do not import it
    found = {path: {name.split(".")[0] for name in imports(path, only_top=True)} & HEAVY for path in files}
    assert {path: names for path, names in found.items() if names} == {}


def test_files_and_functions_are_short_and_take_few_parameters() -> None:
    wrong: list[tuple[Path, str]] = []
    for path in SHIPPED:
        lines = len(path.read_text().splitlines())
        if lines > 400 or path.stem in VAGUE:
            wrong.append((path, f"{lines} lines"))
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                many = len([a for a in taken if a.arg not in ("self", "cls")]) > 6 and node.name != "__init__"
                if many or (node.end_lineno or 0) - node.lineno >= 60:
                    wrong.append((path, node.name))
    assert wrong == []


BANNED = {"pickle", "cPickle", "cloudpickle", "dill", "shelve", "joblib", "marshal"}
CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "yaml.load", "yaml.load_all"}
METHODS = {"system", "popen", "read_pickle", "unsafe_load", "full_load"}


RISKS = ("shell", "allow_pickle", "trust_remote_code")


def test_nothing_that_is_read_can_run_code() -> None:
    wrong = [(path, name) for path in SHIPPED for name in imports(path) if name.split(".")[0] in BANNED]
    for path in SHIPPED:
        for node in nodes(path):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                flags = {word.arg: ast.unparse(word.value) for word in node.keywords}
                risky = [name for name in RISKS if flags.get(name, "False") != "False"]
                if called in CALLS or called.rpartition(".")[2] in METHODS or risky:
                    wrong.append((path, called))
    assert wrong == []


LOADED = """
import sys
from ragsweep.commands.cli import main

def check(*libraries):
    loaded = set(libraries) & set(sys.modules)
    assert not loaded, (sys.argv, loaded)

for arguments in (["--help"], ["plan=true", "retriever=bm25"], ["plan=true"]):
    sys.argv = ["ragsweep", "run", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
    check("torch", "sentence_transformers", "mlflow", "transformers")
for name in ("sweep.sweeping", "sweep.running.jobs", "sweep.running.session", "parts.tracking", "parts.metrics"):
    __import__(f"ragsweep.{name}")  # what every command is made of
check("langchain", "langchain_core", "langchain_community", "ragas", "diskcache")
"""


def test_help_and_plan_loads_no_model_library_and_the_core_neither_langchain_nor_ragas(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


OF_NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_field_defaults", "_make"}


def test_libraries_are_used_by_their_public_names() -> None:
    wrong = []
    for path in SHIPPED:
        private = [name for name in imports(path) if any(part.startswith("_") for part in name.split("."))]
        wrong += [(path, name) for name in private if not name.startswith(("__future__", "ragsweep", "hydra_plugins"))]
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                owner = ast.unparse(node.value)
                if owner not in ("self", "cls", "other", "super()") and node.attr not in OF_NAMED_TUPLES:
                    wrong.append((path, ast.unparse(node)))
    assert wrong == []


def test_no_variable_of_a_module_changes() -> None:
    wrong = []
    for path in SHIPPED:
        assert "contextvars" not in imports(path), path
        wrong += [(path, "global") for node in nodes(path) if isinstance(node, ast.Global)]
        tree = nodes(path)[0]
        assert isinstance(tree, ast.Module)
        for node in tree.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            empty = value is not None and ast.unparse(value) in ("[]", "{}", "set()", "dict()", "list()")
            if empty or (isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in CONTAINERS):
                wrong.append((path, ast.unparse(node)[:60]))
    assert wrong == []


CONTAINERS = {"deque", "defaultdict", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary", "Lock", "RLock"}


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[Path]] = {}
    for path in [*FILES, *BESIDE_FILES]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
