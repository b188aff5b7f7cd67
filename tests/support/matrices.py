"""Matrices of scores for the tests of inference."""

import dataclasses

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from ragsweep.stats.inference.matrix import Matrix, relative


def matrix(values: ArrayLike, clusters: ArrayLike | None = None, *, higher_is_better: bool = True) -> Matrix:
    rows = np.array(values, dtype=np.float64)
    count = rows.shape[1]
    numbers = np.arange(count) if clusters is None else np.unique(np.array(clusters), return_inverse=True)[1]
    configs, questions = (tuple(f"{kind}{n}" for n in range(size)) for kind, size in zip("cq", rows.shape, strict=True))
    return Matrix(rows, numbers, configs, questions, "score", higher_is_better, count)


def weighted(one: Matrix, weights: NDArray[np.float64]) -> Matrix:
    """Return the same scores with weights in these proportions."""
    scaled = relative(weights)
    return dataclasses.replace(one, values=one.values * scaled, weights=scaled)


def normal(configs: int, questions: int, gain: float = 0.0, seed: int = 0) -> Matrix:
    """Draw correlated scores; the last config is better by ``gain``."""
    generator = np.random.default_rng(seed)
    values = generator.normal(0.5, 0.36, questions) + generator.normal(0, 0.18, (configs, questions))
    values[-1] += gain
    return matrix(values)


def planted(configs: int, questions: int, seed: int) -> NDArray[np.float64]:
    """Draw hits by the two-parameter logistic model, the best config last; the first quarter of questions is noise."""
    generator = np.random.default_rng(seed)
    ability = np.sort(generator.normal(0, 1, configs))[:, None]
    slope, middle = np.abs(generator.normal(0, 1, questions)) + 0.3, generator.normal(0, 1.5, questions)
    slope[: questions // 4] = 0
    chance = 1 / (1 + np.exp(-slope * (ability - middle)))
    return np.asarray(generator.random((configs, questions)) < chance, dtype=np.float64)


def turned(one: Matrix) -> Matrix:
    """Return the scores with the opposite sign, of a metric where lower is better."""
    return dataclasses.replace(one, values=-one.values, higher_is_better=not one.higher_is_better)


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    """Draw a few configs and questions with many ties, equal rows, and clusters."""
    configs, questions = draw(st.integers(2, 5)), draw(st.integers(10, 24))
    seed, clustered = draw(st.integers(0, 2**20)), draw(st.booleans())
    generator = np.random.default_rng(seed)
    steps = draw(st.sampled_from([1, 4, 1000]))
    values = generator.integers(0, steps + 1, (configs, questions)) / steps
    values[-1] = values[0] if draw(st.booleans()) else values[-1]
    clusters = np.arange(questions) % (12 if clustered else questions)
    return matrix(values, clusters)
