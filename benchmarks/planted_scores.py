"""Simulated scores per question with known true means, for benchmarks/planted.py."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from ragsweep.core.results import Result
from ragsweep.records.ledger import Ledger
from ragsweep.stats.inference.matrix import Matrix, score_matrix

Doubles = NDArray[np.float64]
Numbers = NDArray[np.int64]
ROOT = Path(__file__).resolve().parent.parent
SWEPT = ["chunker=none,recursive", "retriever=bm25", "retriever.k1=.6,1.5", "retriever.b=.3,.75",
         "retriever.language=english,none", "tracking=none"]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Planted:
    """Scores with the true mean of each config, and the label of each question if there are slices."""

    matrix: Matrix
    truth: Doubles
    labels: tuple[str, ...] = field(default=())


Draw = Callable[[np.random.Generator], Planted]


@dataclass(frozen=True)
class Scenario:
    name: str
    draw: Draw
    continuous: bool = True
    slices: bool = False


LABELS = {
    " as it is": ", real scores",
    "sources of 3": "documents of 3 questions",
    ", ties": ", hits and misses",
    "today's best": "baseline best",
    "around today's": "around the baseline's",
    "one +": "one better by ",
}


def label(name: str) -> str:
    """Return the label of a scenario in the tables. The name itself seeds the random numbers, so it never changes."""
    for part, shown in LABELS.items():
        name = name.replace(part, shown)
    return name


def planted(values: Doubles, truth: Doubles, clusters: Numbers | None = None, labels: tuple[str, ...] = ()) -> Planted:
    count = values.shape[1]
    numbers = np.arange(count) if clusters is None else clusters
    configs = tuple(f"c{row}" for row in range(len(values)))
    names = tuple(str(question) for question in range(count))
    return Planted(Matrix(values, numbers, configs, names, "score", True, count), truth, labels)


def normal(truth: Doubles, questions: int, generator: np.random.Generator) -> Planted:
    """Draw scores with standard deviation .4, and correlation .8 between any two configs."""
    shared = generator.normal(0.5, 0.4 * np.sqrt(0.8), questions)
    own = generator.normal(0, 0.4 * np.sqrt(0.2), (len(truth), questions))
    return planted(shared + own + truth[:, None], truth + 0.5)


def families(truth: Doubles, members: int, questions: int, generator: np.random.Generator) -> Planted:
    """Draw families of similar configs: members differ on only a third of the questions, families on all."""
    shared = generator.normal(0.5, 0.36, questions)
    family = np.repeat(generator.normal(0, 0.18, (len(truth) // members, questions)), members, axis=0)
    own = generator.normal(0, 0.1, (len(truth), questions)) * (generator.random((len(truth), questions)) < 1 / 3)
    return planted(shared + family + own + truth[:, None], truth + 0.5)


def tied(truth: Doubles, questions: int, generator: np.random.Generator, flipped: float = 0.1) -> Planted:
    """Hits and misses; a config differs from the common answers on a tenth of the questions; better ones gain hits."""
    shared = generator.random(questions) < 0.6
    values = shared ^ (generator.random((len(truth), questions)) < flipped)
    middle = 0.6 * (1 - flipped) + 0.4 * flipped
    won = generator.random(values.shape) < (truth / (1 - middle))[:, None]
    return planted((values | won).astype(np.float64), middle + truth)


def clustered(truth: Doubles, sources: int, generator: np.random.Generator) -> Planted:
    """Draw three questions per source document, whose differences share most of their variance."""
    shared = generator.normal(0.5, 0.36, 3 * sources)
    of_source = np.repeat(generator.normal(0, 0.16, (len(truth), sources)), 3, axis=1)
    own = generator.normal(0, 0.08, (len(truth), 3 * sources))
    return planted(shared + of_source + own + truth[:, None], truth + 0.5, np.repeat(np.arange(sources), 3))


def unequal(sizes: Sequence[int], generator: np.random.Generator) -> Planted:
    """Draw ten equal configs and sources of unequal size; scores of one source have an intraclass correlation of .3."""
    source = np.repeat(np.arange(len(sizes)), sizes)
    shared = generator.normal(0.5, 0.36, len(source))
    of_source = generator.normal(0, 0.18 * np.sqrt(0.3), (10, len(sizes)))[:, source]
    own = generator.normal(0, 0.18 * np.sqrt(0.7), (10, len(source)))
    return planted(shared + of_source + own, np.full(10, 0.5), source)


def skewed(configs: int, questions: int, generator: np.random.Generator) -> Planted:
    """Draw equal configs: each gains .05 on 40 % of the questions and loses .5 on 4 %, against the first one."""
    drawn = generator.random((configs - 1, questions))
    gains = np.where(drawn < 0.4, 0.05, np.where(drawn < 0.44, -0.5, 0.0))
    return planted(0.6 + np.vstack([np.zeros(questions), gains]), np.full(configs, 0.6))


def opposed(questions: int, generator: np.random.Generator) -> Planted:
    """Four configs and five slices; the last config is better by .1 in four slices, and worse by .15 in the fifth."""
    drawn = normal(np.zeros(4), questions, generator).matrix.values
    labels = np.arange(questions) % 5
    drawn[-1] += np.where(labels == 4, -0.15, 0.1)
    return planted(drawn, np.array([0.5, 0.5, 0.5, 0.55]), labels=tuple(f"slice {n}" for n in labels.tolist()))


def shuffled(pool: Doubles, questions: int, gain: float, generator: np.random.Generator) -> Planted:
    """Draw real questions and permute the configs within each; the last one gets some questions' best scores."""
    drawn = generator.permuted(pool[:, generator.integers(0, pool.shape[1], questions)], axis=0)
    truth = np.full(len(pool), pool.mean())
    room = float((pool.max(axis=0) - pool.mean(axis=0)).mean())
    share = min(gain / room, 1.0)
    drawn[-1] = np.where(generator.random(questions) < share, drawn.max(axis=0), drawn[-1])
    truth[-1] += share * room
    return planted(drawn, truth)


def resampled(pool: Doubles, questions: int, generator: np.random.Generator) -> Planted:
    """Draw real questions with their scores; the true mean is that over all questions."""
    return planted(pool[:, generator.integers(0, pool.shape[1], questions)], pool.mean(axis=1))


SPREAD, SHARED, ICC = 0.5, 0.8, 0.3
"""Of latent scores: standard deviation, share of the variance common to configs, share common to a document."""


@lru_cache(maxsize=1)
def latent_means() -> tuple[Doubles, Doubles]:
    """Return means of scores clipped to 0 and 1, and the latent means that yield them."""
    latent = np.linspace(-0.5, 1.5, 2001)
    low, high = -latent / SPREAD, (1 - latent) / SPREAD
    density = np.exp(-np.square([low, high]) / 2) / np.sqrt(2 * np.pi)
    cut = latent * (ndtr(high) - ndtr(low)) + SPREAD * (density[0] - density[1]) + 1 - ndtr(high)
    return cut, latent


def graded(truth: Doubles, sizes: Sequence[int], generator: np.random.Generator) -> Planted:
    """Draw scores clipped to 0 and 1, of questions in documents of these sizes; differences have an sd of about .25."""
    source = np.repeat(np.arange(len(sizes)), sizes)
    alone = ICC if max(sizes) > 1 else 0.0

    def drawn(rows: int, share: float) -> Doubles:
        documents = generator.normal(0, SPREAD * np.sqrt(share * alone), (rows, len(sizes)))
        return documents[:, source] + generator.normal(0, SPREAD * np.sqrt(share * (1 - alone)), (rows, len(source)))

    latent = np.interp(0.5 + truth, *latent_means())
    values = latent[:, None] + drawn(1, SHARED) + drawn(len(truth), 1 - SHARED)
    return planted(values.clip(0, 1), 0.5 + truth, source)


def right_or_wrong(truth: Doubles, sizes: Sequence[int], generator: np.random.Generator) -> Planted:
    """Hits and misses; the worst config only differs from the common answers, better ones gain hits."""
    return tied(truth - truth.min(), len(sizes), generator)


def rare(configs: int, questions: int, loss: float, share: float, generator: np.random.Generator) -> Planted:
    """Draw equal configs: each gains a little on 40 % of the questions and loses much on few, against the first one."""
    place = generator.random((configs - 1, questions))
    gains = np.where(place < share, -loss, np.where(place < share + 0.4, loss * share / 0.4, 0.0))
    return planted(0.6 + np.vstack([np.zeros(questions), gains]), np.full(configs, 0.6))


Make = Callable[[Doubles, Sequence[int], np.random.Generator], Planted]


def at_random(make: Make, configs: int, spread: float, sizes: Sequence[int], generator: np.random.Generator) -> Planted:
    return make(generator.normal(0, spread, configs), sizes, generator)


def around(configs: int) -> Doubles:
    """Spread true means evenly from -.05 to .05, one in the middle first."""
    others = np.linspace(-0.05, 0.05, configs)
    middle = (configs - 1) // 2
    return np.array([others[middle], *np.delete(others, middle)])


def far_worse(configs: int, count: int, by: float) -> Doubles:
    """Return true means of equal configs, except for the last ones, which are worse."""
    return np.where(np.arange(configs) < configs - count, 0.0, -by)


def of_any_spread(configs: int, questions: int, generator: np.random.Generator) -> Planted:
    """Draw true means whose standard deviation is drawn itself, log-uniformly from .003 to .25."""
    spread = float(np.exp(generator.uniform(np.log(0.003), np.log(0.25))))
    return at_random(graded, configs, spread, [1] * questions, generator)


def of_families(spread: float, questions: int, generator: np.random.Generator) -> Planted:
    """Draw the true means of four families of three configs, whose scores differ on a third of the questions."""
    return families(np.repeat(generator.normal(0, spread, 4), 3), 3, questions, generator)


def zipf(documents: int, questions: int) -> list[int]:
    """Return sizes proportional to 1 / rank, at least 1."""
    ranks = 1 / np.arange(1, documents + 1)
    return np.maximum(1, np.round(questions * ranks / ranks.sum())).astype(int).tolist()


def real(collection: str, store: str) -> Doubles:
    """Sweep sixteen cheap configs with run.py and read their nDCG@10 from the ledger (configs, questions)."""
    folder = Path(os.environ["RAGSWEEP_COLLECTIONS"]) / collection
    given = ["dataset=beir", f"dataset.path={folder}", "dataset.split=test", *SWEPT, f"store.path={store}"]
    subprocess.run([sys.executable, str(ROOT / "run.py"), "-m", *given], check=True, stdout=subprocess.DEVNULL)
    ledger = Ledger(Path(store))
    for sweep in reversed(ledger.sweeps()):
        found = [record.outcome for record in ledger.records(sweep.id) if isinstance(record.outcome, Result)]
        if found and f"dataset.path={folder}" in found[0].run.overrides:
            return score_matrix(found, "ndcg_at_10").values
    raise RuntimeError(f"no sweep over {folder} in {store}")


def one_better(configs: int, gain: float) -> Doubles:
    return np.append(np.zeros(configs - 1), gain)


def synthetic() -> list[Scenario]:
    half = np.repeat([-0.05, 0.0], 5)
    spread = np.linspace(-0.09, 0, 10)
    of_family = np.repeat([0, 0, 0, 0, 0.08], 4)
    return [
        Scenario("10 equal, n=100", partial(normal, np.zeros(10), 100)),
        Scenario("50 equal, n=100", partial(normal, np.zeros(50), 100)),
        Scenario("20 equal, families, n=100", partial(families, np.zeros(20), 4, 100)),
        Scenario("10 equal, ties, n=100", partial(tied, np.zeros(10), 100), continuous=False),
        Scenario("10 equal, rare departures, n=100", partial(tied, np.zeros(10), 100, flipped=0.03), continuous=False),
        Scenario("10 equal, 60 sources of 3", partial(clustered, np.zeros(10), 60)),
        Scenario(
            "10 equal, sources of 15, 12, 7, 5, 4, 3, 2 and 28 of 1",
            partial(unequal, [15, 12, 7, 5, 4, 3, 2, *[1] * 28]),
        ),
        Scenario("10 equal, 5 sources of 10 and 50 of 1", partial(unequal, [10] * 5 + [1] * 50)),
        Scenario("10 equal, 2 sources of 20 and 60 of 1", partial(unequal, [20] * 2 + [1] * 60)),
        Scenario("10 equal, 40 sources of 3", partial(unequal, [3] * 40)),
        *(
            Scenario(f"{configs} equal, rare large losses, n={n}", partial(skewed, configs, n), continuous=False)
            for configs, n in ((2, 50), (5, 50), (10, 50), (10, 200))
        ),
        Scenario("1 of 10 by .10, n=100", partial(normal, one_better(10, 0.10), 100)),
        Scenario("1 of 10 by .05, n=300", partial(normal, one_better(10, 0.05), 300)),
        Scenario("1 of 50 by .08, n=100", partial(normal, one_better(50, 0.08), 100)),
        Scenario("half worse by .05, n=100", partial(normal, half, 100)),
        Scenario("spread 0 to .09, n=100", partial(normal, spread, 100)),
        Scenario("a family by .08, n=100", partial(families, of_family, 4, 100)),
        Scenario("1 of 10 by .10, ties, n=100", partial(tied, one_better(10, 0.10), 100), continuous=False),
        Scenario("slices opposed, n=300", partial(opposed, 300), slices=True),
    ]


def drawn_from(name: str, pool: Doubles) -> list[Scenario]:
    return [
        Scenario(f"{name}, 16 equal, n=100", partial(shuffled, pool, 100, 0.0), continuous=False),
        Scenario(f"{name}, 1 of 16 by .05, n=150", partial(shuffled, pool, 150, 0.05), continuous=False),
        Scenario(f"{name} as it is, n=150", partial(resampled, pool, 150), continuous=False),
    ]
