"""Write docs/sizing.md: requirements of a million, ten million and a hundred million chunks, from measured constants.

From the clone: .venv/bin/python docs/sizing.py [--core-hour .05 --cores 2]; a test compares the page with this output.
Measured: docs/million.json (benchmarks/million.py). Prices of tokens: conf/prices/default.yaml.
"""

import argparse
import json
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parent.parent
MEASURED, PRICES, PAGE = (
    ROOT / "docs" / "million.json",
    ROOT / "conf" / "prices" / "default.yaml",
    ROOT / "docs" / "sizing.md",
)
SIZES = (1_000_000, 10_000_000, 100_000_000)
WORKERS = 20
SERVICES = ("text-embedding-3-small", "text-embedding-3-large", "mistral-embed")
HEAD = ["index", "disk", "memory to build", "memory to search", "hours to build", "ms per question"]
SHARED = 2**20
"""Number of vectors per graph in LanceDB."""


class Growth(NamedTuple):
    """A law of growth with the number of chunks, in words and as a function up to a constant factor."""

    words: str
    law: Callable[[float], float]

    def scale(self, value: float, measured: int, wanted: int) -> float:
        """Scale a value from the ``measured`` number of chunks to the ``wanted`` one."""
        return value * (self.law(wanted) / self.law(measured))


LINEAR = Growth("n", lambda n: n)
SORTED = Growth("n log n", lambda n: n * math.log(n))
LOGARITHM = Growth("log n", math.log)
ROOTS = Growth("√n", math.sqrt)
LISTS = Growth("n × lists", lambda n: n * min(4096, n / 39))
IN_LISTS = Growth("lists + 16 n / lists", lambda n: min(4096, n / 39) + 16 * n / min(4096, n / 39))
IN_GRAPHS = Growth("n log n up to a million, then n", lambda n: n * math.log(min(n, SHARED)))
GRAPHS = Growth("log n up to a million, then n",
                lambda n: math.log(min(n, SHARED)) * max(1, n / SHARED))  # fmt: skip
LAWS: Mapping[str, tuple[Growth, Growth]] = {
    "flat": (LINEAR, LINEAR),
    "hnsw": (SORTED, LOGARITHM),
    "ivf": (LISTS, IN_LISTS),
    "pq": (LINEAR, LINEAR),
    "sq": (LINEAR, LINEAR),
    "lancedb": (LINEAR, ROOTS),
    "lancedb_hnsw": (IN_GRAPHS, GRAPHS),
    "pgvector": (SORTED, LOGARITHM),
}
"""For each index with default parameters, the growth of the times to build it and to answer a question."""


class Prices(NamedTuple):
    """The assumed price and number of cores of a worker."""

    core_hour: float
    cores: int


DEFAULT = Prices(0.05, 2)


def page(prices: Prices = DEFAULT) -> str:
    """Return the page."""
    kept = json.loads(MEASURED.read_text("utf-8"))
    rows = {(row["index"], row["size"]): row for row in kept["rows"]}
    tariff = yaml.safe_load(PRICES.read_text("utf-8"))
    lines = [*_head(kept, prices), *_vectors(), *_embedding(kept, tariff, prices)]
    return "\n".join([*lines, *_indexes(kept, rows, prices), *_laws(rows)]) + "\n"


def _head(kept: Mapping[str, Any], prices: Prices) -> Iterator[str]:
    cluster = kept["cluster"]
    yield "# Sizing\n"
    yield _filled(
        f"""`python docs/sizing.py` estimates the disk, memory, time and money that a corpus needs. It extrapolates
        [measurements](million.json) according to the [growth rates](#growth-rates). The measurements were made with
        `{kept["command"]}` and `python benchmarks/million.py --embed` ({kept["machine"]})."""
    )
    yield ""
    for point in (
        "In the tables of indexes, only recall and **bold** figures were measured.",
        f"""Assumptions: a worker has {prices.cores} cores, and a core costs {prices.core_hour:.2f} USD an hour.
        For other values, run `python docs/sizing.py --core-hour .04 --cores 8 --print`.""",
        """Hours are processor time divided by the cores of a worker. Measured times per question are upper limits,
        because [other programs](measurements.md#scale) were running.""",
        f"""By default, one process embeds a corpus and builds its index. `compute=ray` divides the embedding among
        workers; {cluster["workers"]} one-core workers were {cluster["speedup"]:.2f} times as fast as one. The column
        for {WORKERS} workers assumes the same efficiency per worker.""",
        "MB and GB are decimal.",
    ):
        yield _filled(point, "- ")
    yield ""


def _vectors() -> Iterator[str]:
    yield "## Vectors\n"
    yield _filled(
        f"""A vector takes four bytes per number: {_bytes(4 * 384 * SIZES[0])} for {SIZES[0]:,} vectors of 384 numbers.
        The file of all vectors is memory-mapped, so it occupies the page cache, not the process's memory."""
    )
    yield ""


def _embedding(kept: Mapping[str, Any], tariff: Mapping[str, Any], prices: Prices) -> Iterator[str]:
    measured, cluster = kept["embedding"], kept["cluster"]
    rate, tokens = measured["chunks_per_core_second"], measured["tokens_per_chunk"]
    services = [(name, _price(tariff, name)) for name in SERVICES]
    yield "## Embedding\n"
    yield _filled(
        f"""{measured["model"]} ({measured["dtype"]}) embeds {rate:.1f} chunks of {measured["characters_per_chunk"]:.0f}
        characters ({tokens:.0f} tokens) per second on one core. Service prices are list prices of {tariff["date"]}."""
    )
    yield ""
    yield (
        f"| chunks | hours, one worker | hours, {WORKERS} Ray workers of {prices.cores} cores | USD, one worker"
        f" | {' | '.join(f'USD, {name}' for name, _ in services)} |"
    )
    yield f"|{' --- |' * (len(services) + 4)}"
    for size in SIZES:
        core_hours = size / rate / 3600
        shared = cluster["workers"] / cluster["speedup"] / WORKERS  # of the hours of one
        cells = [_hours(number * core_hours / prices.cores) for number in (1, shared)]
        cells += [_money(core_hours * prices.core_hour)]
        cells += [_money(size * tokens / 1e6 * price) for _, price in services]
        yield f"| {size:,} | {' | '.join(cells)} |"
    yield ""


def _indexes(kept: Mapping[str, Any], rows: Mapping[tuple[str, int], Any], prices: Prices) -> Iterator[str]:
    yield f"## Indexes of vectors of {kept['dimension']} numbers\n"
    yield _filled(
        """*Disk* excludes the file of vectors above, but includes the copy of the vectors in lancedb,
        lancedb_hnsw and pgvector. *Memory to search* is the memory of the process or server, plus the page cache, which
        all processes on a machine share. With a smaller page cache, searches read from the disk and take longer.
        *Hours to build* exclude embedding. Qdrant was not measured."""
    )
    for size in SIZES:
        yield f"\n### {size:,} chunks\n"
        head = [*HEAD, "recall@10"] if size == SIZES[0] else HEAD
        yield f"| {' | '.join(head)} |"
        yield f"|{' --- |' * len(head)}"
        for index in LAWS:
            measured = _measured(rows, index)
            cells = _cells(index, measured, size, prices) if measured else ["not measured"] * (len(head) - 1)
            yield f"| {index} | {' | '.join(cells)} |"
    yield ""


def _cells(index: str, rows: Sequence[Mapping[str, Any]], size: int, prices: Prices) -> Iterator[str]:
    (build, question), row = LAWS[index], rows[-1]
    measured = row["size"]
    mark = ("**{}**" if size == measured else "{}").format
    yield mark(_bytes(1e6 * LINEAR.scale(row["disk_mb"], measured, size)))
    yield mark(_bytes(_line(rows, "build_memory_mb", size)))
    yield mark(" + ".join(_bytes(_line(rows, f"search_{kind}_mb", size)) for kind in ("memory", "mapped")))
    core_hours = build.scale(row["build_cpu_s"], measured, size) / 3600
    yield mark(_hours(core_hours / prices.cores))
    yield mark(_milliseconds(question.scale(row["p50_ms"], measured, size)))
    if size == SIZES[0]:
        yield "exact" if index == "flat" else f"{row.get('recall') or float('nan'):.3f}"


def _laws(rows: Mapping[tuple[str, int], Any]) -> Iterator[str]:
    yield "## Growth rates\n"
    yield _filled(
        """For n chunks, disk space is assumed to be proportional to n, and times to the expressions in the table. The
        expressions hold for default parameters (ivf: one list per 39 chunks, up to 4,096). Memory is extrapolated along
        the line through the smallest and largest measurement. *Predicted / measured* lists two processor times for
        the largest measured size: predicted from the next smaller size, and measured. The hours for pq and lancedb are
        upper limits, because the extrapolation also scales the constant time of training on samples. For pgvector,
        extrapolated times per question may be too low."""
    )
    yield ""
    yield "| index | build | predicted / measured s | question | predicted / measured ms |"
    yield f"|{' --- |' * 5}"
    for index, (build, question) in LAWS.items():
        measured = _measured(rows, index)
        if len(measured) < 2:
            continue
        before, after = measured[-2:]
        cells = []
        for growth, key in ((build, "build_cpu_s"), (question, "search_cpu_ms")):
            predicted = growth.scale(before[key], before["size"], after["size"])
            cells += [growth.words, f"{predicted:,.1f} / {after[key]:,.1f}"]
        yield f"| {index} | {' | '.join(cells)} |"


def _measured(rows: Mapping[tuple[str, int], Any], index: str) -> list[Mapping[str, Any]]:
    """List the complete measurements of an index, by the number of chunks."""
    return [row for (name, _), row in sorted(rows.items()) if name == index and {"build_cpu_s", "p50_ms"} <= {*row}]


def _line(rows: Sequence[Mapping[str, Any]], key: str, size: int) -> float:
    """Extrapolate MB to bytes along a line through the smallest and the largest measurement: part is constant."""
    first, last = rows[0], rows[-1]
    if first is last:
        return LINEAR.scale(1e6 * float(last[key]), last["size"], size)
    slope = max(0.0, (last[key] - first[key]) / (last["size"] - first["size"]))
    return 1e6 * float(last[key] + slope * (size - last["size"]))


def _filled(text: str, bullet: str = "") -> str:
    """Wrap a paragraph."""
    return textwrap.fill(bullet + " ".join(text.split()), 130, subsequent_indent=" " * len(bullet),
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def _price(tariff: Mapping[str, Any], model: str) -> float:
    """Return the price of a million input tokens."""
    return float(next(price for pattern, (price, _) in tariff["models"].items() if fnmatch(model, pattern)))


def _bytes(number: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9)):
        if number >= size:
            return f"{_three(number / size)} {unit}"
    return f"{number / 1e6:.0f} MB"


def _hours(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.1f}" if hours >= 0.1 else f"{hours:.2f}"


def _money(money: float) -> str:
    return f"{money:,.0f}" if money >= 10 else f"{money:.2f}"


def _milliseconds(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def _three(number: float) -> str:
    """Format a number with three significant digits."""
    return f"{number:.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def main() -> None:
    """Write the page, or print it for other prices."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core-hour", type=float, default=0.05, help="price of a core for an hour")
    parser.add_argument("--cores", type=int, default=2, help="cores of a worker")
    parser.add_argument("--print", action="store_true", help="print the page instead of writing it")
    given = parser.parse_args()
    made = page(Prices(given.core_hour, given.cores))
    if given.print:
        print(made, end="")
    else:
        PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
