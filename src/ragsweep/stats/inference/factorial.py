"""Effects of a grid's parameters: main effects and two-way interactions, with intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Literal

import numpy as np

from ragsweep.core.question_results import Doubles
from ragsweep.stats.inference.matrix import Matrix
from ragsweep.stats.inference.rare_losses import find_exposed, largest_losses
from ragsweep.stats.inference.resampling import NEGLIGIBLE, RESAMPLES, bound, cluster_scores, needed_p_value

Method = Literal["full grid", "least squares", "least squares without interactions"]
Interactions = Literal["estimated", "present", "not shown", "untestable"]

ADDITIVE: Method = "least squares without interactions"


@dataclass(frozen=True)
class Effect:
    """The main effect of one parameter, or the interaction of two, on the mean, in the metric's unit and direction.

    For one parameter, the effect is the mean at a level minus the mean at the first level, averaged over all levels of
    the other parameters. For two parameters, it is the amount by which a change of the first alters the effect of the
    second. The numbers are NaN if the effect cannot be estimated, with the reason in ``note``. ``exposed`` is true if a
    loss too rare to have been observed could reverse an effect whose interval excludes 0.
    """

    factors: tuple[str, ...]
    levels: tuple[str, ...]
    against: tuple[str, ...]  # the first levels
    estimate: float
    low: float
    high: float
    standard_error: float
    note: str
    exposed: bool


@dataclass(frozen=True)
class Effects:
    """All effects of a grid; their intervals hold simultaneously.

    ``interactions`` is "estimated" for a model with interactions. For a model without, it is "present" if the configs
    differ significantly from the model; an effect is then an average over the configs that were run. ``interactions``
    is "untestable" if the model would fit these configs exactly whatever their scores were, as in an ablation, and "not
    shown" in all other cases.
    """

    effects: tuple[Effect, ...]
    method: Method
    interactions: Interactions = "estimated"


@dataclass(frozen=True)
class _Design:
    """The columns of a linear model of the mean: the intercept, and one for each level of a factor except its first.

    With interactions, each pair of such levels of two factors also has a column.
    """

    factors: Mapping[str, tuple[str, ...]]
    columns: tuple[tuple[tuple[str, str], ...], ...]

    def row(self, setting: Mapping[str, str]) -> Doubles:
        return np.array([float(all(setting[name] == level for name, level in term)) for term in self.columns])


def effects(
    parameters: Sequence[Mapping[str, str]],
    matrix: Matrix,
    resamples: int = RESAMPLES,
    lengthening: Sequence[str] = (),
) -> Effects:
    """Estimate main effects and two-way interactions of the factors, with simultaneous bootstrap intervals.

    ``parameters`` has one mapping per config, from a name to its value as text. Parameters with a single value are not
    factors; a parameter that a config lacks counts as the level "". In a full grid (every combination, equally often),
    an effect is a difference of plain averages over configs. Otherwise a model is fitted by least squares. It has main
    effects and two-way interactions, or main effects alone if the configs do not determine the interactions, as in an
    ablation that changes one parameter at a time. Both methods compute an effect for each question, so questions remain
    paired and clustered. Raising a factor in ``lengthening`` can only raise the metric, so its main effects are not
    ``exposed`` if no question loses.
    """
    factors = _factors(parameters)
    settings = [{name: one.get(name, "") for name in factors} for one in parameters]
    method, design = _method(factors, settings)
    terms = [term for term in design.columns if term]
    if not terms:
        return Effects((), method)
    inputs = np.array([design.row(one) for one in settings])
    inverse = np.linalg.pinv(inputs)
    contrasts = np.array([_contrast(design, term) for term in terms])
    known = np.abs(contrasts @ inverse @ inputs - contrasts).max(axis=1) < 1e-8
    rows = (contrasts @ inverse)[known] @ matrix.values
    rows[np.abs(rows) <= NEGLIGIBLE * np.abs(matrix.values).max(initial=0)] = 0  # rounding errors of one sign
    bounds = bound(cluster_scores(rows, matrix.clusters, matrix.weights), resamples)
    lengthens = np.array([len(term) == 1 and term[0][0] in lengthening for term in terms])[known]
    shown = ((bounds.low > 0) | (bounds.high < 0)) & ~(lengthens & (rows >= 0).all(axis=1))
    allowed = needed_p_value(bounds.critical, bounds.degrees)
    exposed = np.zeros(len(terms), dtype=bool)
    scaled = rows / np.array([len(term) for term in terms])[known, None]  # a question can lose twice in an interaction
    most = largest_losses(matrix.scores, matrix.unit)
    exposed[known] = find_exposed(scaled, matrix.clusters, shown, most, allowed)
    numbers = np.full((len(terms), 4), math.nan)
    numbers[known] = np.stack([bounds.means, bounds.low, bounds.high, bounds.errors], axis=1)
    found = []
    for term, row, sure, doubted in zip(terms, numbers.tolist(), known, exposed, strict=True):
        estimate, low, high, error = row
        names, levels = zip(*term, strict=True)
        references = tuple(factors[name][0] for name in names)
        note = "" if sure else "it cannot be distinguished from another effect with these configs"
        found.append(Effect(names, levels, references, estimate, low, high, error, note, bool(doubted)))
    interactions = _interactions(matrix, inputs, inverse, resamples) if method == ADDITIVE else "estimated"
    return Effects(tuple(found), method, interactions)


def _interactions(matrix: Matrix, inputs: Doubles, inverse: Doubles, resamples: int) -> Interactions:
    """Test whether configs differ from an additive model by more than chance (max-T over their residuals)."""
    if np.linalg.matrix_rank(inputs) == len(inputs):
        return "untestable"
    residuals = matrix.values - inputs @ (inverse @ matrix.values)
    bounds = bound(cluster_scores(residuals, matrix.clusters, matrix.weights), resamples)
    apart = (bounds.low > 0) | (bounds.high < 0)
    large = np.abs(bounds.means) > NEGLIGIBLE * np.abs(matrix.values).max()
    return "present" if (apart & large).any() else "not shown"


def _factors(parameters: Sequence[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    names = dict.fromkeys(name for one in parameters for name in one)
    levels = {name: tuple(dict.fromkeys(one.get(name, "") for one in parameters)) for name in names}
    return {name: found for name, found in levels.items() if len(found) > 1}


def _method(factors: Mapping[str, tuple[str, ...]], settings: Sequence[Mapping[str, str]]) -> tuple[Method, _Design]:
    mains = [((name, level),) for name, levels in factors.items() for level in levels[1:]]
    both = [
        ((one, a), (other, b))
        for one, other in combinations(factors, 2)
        for a in factors[one][1:]
        for b in factors[other][1:]
    ]
    full = _Design(factors, ((), *mains, *both))
    cells = [tuple(one.values()) for one in settings]
    is_covered = len(cells) >= math.prod(map(len, factors.values()))  # a search can have too many combinations to list
    counts = {cells.count(cell) for cell in product(*factors.values())} if is_covered else {0}
    if len(counts) == 1 and 0 not in counts:
        return "full grid", full
    rank = np.linalg.matrix_rank(np.array([full.row(one) for one in settings]))
    if rank == len(full.columns):
        return "least squares", full
    return ADDITIVE, _Design(factors, ((), *mains))


def _contrast(design: _Design, term: tuple[tuple[str, str], ...]) -> Doubles:
    """Return the weights with which the model's coefficients add up to the effect of ``term``.

    The levels of the other factors have equal weights: a column that crosses the changed factors with a level of
    another factor has the weight 1 / (number of that factor's levels). Columns that lack a changed factor cancel, so
    their weight is 0. Columns with another level of a changed factor also have the weight 0.
    """
    weights = []
    for column in design.columns:
        crossed = [name for name, level in column if (name, level) not in term]
        inside = set(term) <= set(column)
        weights.append(math.prod(1 / len(design.factors[name]) for name in crossed) if inside else 0.0)
    return np.array(weights)
