"""The content of the page as one document in JSON types: sections of texts, tables, charts and questions."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ragsweep.core.results import DROPPED, Failure, Result, objectives
from ragsweep.report.conclusion import WORDS, Decision
from ragsweep.report.definitions import define
from ragsweep.report.naming import short_keys, varying_keys
from ragsweep.report.numbers import cell, number
from ragsweep.report.page import charts, details, effect_charts
from ragsweep.report.page.costs import cost_items
from ragsweep.report.page.curves import Cloud, ParameterMeans, curve_of_best, effects, swept_within
from ragsweep.report.page.histograms import histogram_items
from ragsweep.report.page.items import Item, PastSweep, make_charts, make_table, sort_key
from ragsweep.report.page.losses import follow_evidence, funnel_items, fusion_items
from ragsweep.report.page.questions import browse, judged_metrics
from ragsweep.report.page_texts import PageTexts
from ragsweep.report.sweep_table import all_settings, sweep_table, swept
from ragsweep.report.tables import evidence_note, headline
from ragsweep.stats.comparable import factor_values, factors
from ragsweep.stats.comparison import NoComparison, SweepComparison

FORMAT = "ragsweep.report/1"
SIDE_BY_SIDE = 8
"""Most configs whose questions are on the page."""
MOST_SLICED = 20
MOST_BOXES = 3
MOST_NAMED = 6

CURVE = (
    "The mean of all configs with a value; the band or bar is its 95 % interval. Points in colour, and all values in"
    " the grey region, may be the best; grey points are worse, by more than chance."
)
CLOUD = "Each point is a config; the other settings vary, too."


@dataclass(frozen=True)
class PageSource:
    """The input of the page.

    ``blocks`` are the conclusions as on the terminal: a word and its sentences. ``notes`` are further lines, a label
    and a fact each; ``commands`` are next steps: a command and its effect.
    """

    title: str
    results: Sequence[Result]
    failures: Sequence[Failure] = ()
    verdict: SweepComparison | NoComparison | None = None
    decision: Decision | None = None
    blocks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[tuple[str, str]] = ()
    commands: Sequence[tuple[str, str]] = ()
    sampler: str = ""  # of a search
    texts: PageTexts = field(default_factory=PageTexts)
    history: Sequence[PastSweep] = ()  # the oldest first, this sweep the last
    baselines: Sequence[Result] = ()  # the declared one, if it is not a config of the sweep

    @property
    def compared(self) -> SweepComparison | None:
        """The comparison of the configs, where there is one."""
        return self.verdict if isinstance(self.verdict, SweepComparison) else None


def build_document(source: PageSource) -> dict[str, Any]:
    """Build the page's document; a section without content is left out."""
    page = _Page(source)
    parts = (
        ("asked", "What was asked", page.asked()),
        ("result", "What was found", page.result()),
        ("quality", "Quality against cost", page.quality()),
        ("configs", "Configs", page.configs()),
        ("differences", "Differences", page.differences()),
        ("effects", "Effects", page.effects()),
        ("slices", "Slices", page.slices()),
        ("losses", "Where the evidence was lost", page.losses()),
        ("fusion", "Fusion audit", page.fusion()),
        ("questions", "Questions", page.questions()),
        ("history", "History", page.history()),
        ("details", "Details", page.details()),
    )
    sections = [{"id": key, "title": title, "items": list(items)} for key, title, items in parts]
    document = {"format": FORMAT, "title": source.title, "sections": [one for one in sections if one["items"]]}
    masked: dict[str, Any] = source.texts.secrets.mask_tree(document)
    return masked


class _Page:
    """The sections of one page."""

    def __init__(self, source: PageSource) -> None:
        self.source, self.compared = source, source.compared
        own = [result for result in source.results if result.state != DROPPED]
        self.results, self.swept = [*own, *source.baselines], swept(own)
        self.headline = headline(self.results)
        self.metric = self._metric()
        names = [one.name for one in self.results]
        self.settings = dict(zip(names, all_settings(self.results), strict=True))
        self.choice = source.decision.chosen if source.decision else None
        self.roles = self._roles()
        self.best_first = self._best_first()
        self.chosen = self._chosen()
        self.funnels = follow_evidence(self._sorted(self.chosen))

    def _metric(self) -> str:
        """Name the deciding metric, else the first one shown."""
        if self.compared:
            return self.compared.metric
        named = [*(objectives(self.results[0].config) if self.results else ()), *self.headline]
        return next((name for name in named if any(name in one.summaries for one in self.results)), "")

    def _roles(self) -> dict[str, str]:
        """Name the choice, the baseline and the best; one config may have several roles."""
        if not self.compared:
            return {}
        names = self.compared.matrix.configs
        roles: dict[str, list[str]] = {}
        declared = self.compared.baseline
        baseline = None if declared is None else names[declared]
        best = names[self.compared.selection_bias.winner]
        for role, name in (("choice", self.choice), ("baseline", baseline), ("best", best)):
            if name in self.settings:
                roles.setdefault(name, []).append(role)
        return {name: ", ".join(words) for name, words in roles.items()}

    def _best_first(self) -> list[Result]:
        known = [one for one in self.results if self.metric in one.summaries]

        def loss(result: Result) -> float:
            summary = result.summaries[self.metric]
            sign = 1 if summary.higher_is_better is False else -1
            return math.inf if math.isnan(summary.value) else sign * summary.value

        return sorted(known, key=loss)

    def _chosen(self) -> list[Result]:
        """Choose the configs shown side by side: the baseline, the choice, the best, then by the objective."""
        ranks = {"baseline": 0, "choice": 1, "best": 2}
        marked = sorted(
            (one for one in self.best_first if one.name in self.roles),
            key=lambda one: min(ranks[role] for role in self.roles[one.name].split(", ")),
        )
        return [*marked, *(one for one in self.best_first if one.name not in self.roles)][:SIDE_BY_SIDE]

    def _sorted(self, some: Sequence[Result]) -> list[Result]:
        names = {one.name for one in some}
        return [one for one in self.best_first if one.name in names]

    # --- sections, in the order of the page ------------------------------------------------------------------------

    def asked(self) -> Iterator[Item]:
        """Yield the swept parameters, the questions, and the deciding metric."""
        if not self.results:
            return
        first, facts = self.results[0], [("Swept", self.swept or "one config")]
        dataset, names = first.dataset, objectives(first.config)
        part = "" if dataset.partition == "all" else f", partition {dataset.partition}"
        facts.append(("Questions", f"{dataset.name}{part}: {evidence_note(dataset)}"))
        facts.append(("Documents", f"{dataset.documents:,}"))
        facts += [("Note", note) for note in dataset.notes]
        facts += [("Decided by", ", then ".join(names))] if names else []
        if self.compared:
            declared, names = self.compared.baseline, self.compared.matrix.configs
            facts.append(("Baseline", "none is declared (baseline=)" if declared is None else names[declared]))
        given = first.config.get("constraints") or {}
        limits = {name: limit for name, limit in given.items() if limit is not None}
        facts += [("Constraints", ", ".join(f"{name} {limit:g}" for name, limit in limits.items()))] if limits else []
        facts += (
            [("Search", f"{self.source.sampler}, {len(self.source.results):,} configs")] if self.source.sampler else []
        )
        started = min(one.started for one in self.results)
        if started:
            facts.append(("Run", _when(started)))
        yield {"kind": "facts", "rows": facts}

    def result(self) -> Iterator[Item]:
        """Yield the conclusions and the next steps."""
        if self.source.blocks:
            yield {"kind": "blocks", "rows": list(self.source.blocks.items())}
        if self.source.commands:
            yield {"kind": "commands", "title": "Next", "rows": list(self.source.commands)}
        if self.source.notes:
            yield {"kind": "facts", "rows": list(self.source.notes)}

    def quality(self) -> Iterator[Item]:
        """Yield a scatter of quality for each cost that varies."""
        options = []
        for cost, words in WORDS.items():
            values = {one.summaries[cost].value for one in self.best_first if cost in one.summaries}
            known = {value for value in values if math.isfinite(value)}
            if len(known) > 1 and math.isfinite(self.best_first[0].summaries[self.metric].value):
                figure = charts.quality_against(self.best_first, self.metric, cost, self.roles)
                options.append({"label": words, "figure": figure})
        if options:
            yield make_charts(
                options,
                "Each point is a config, each bar its 95 % interval. The dotted line joins the configs"
                " that no other beats in both quality and cost.",
            )

    def configs(self) -> Iterator[Item]:
        """Yield the table of all configs."""
        if not self.results:
            return
        table = sweep_table(self.results, self.headline, self.source.verdict, self.choice, 10_000, len(self.results))
        header = [name.removeprefix(">") for name in table.header]
        by_number = {one.name.partition(" ")[0].lstrip("#"): one for one in self.results}
        rows = table.rows
        keys = [
            [sort_key(by_number.get(row[0]), name, text) for name, text in zip(header, row, strict=True)]
            for row in rows
        ]
        note = (
            f"Values in brackets are 95 % intervals; those of {header[-2]} hold for all configs together."
            if self.compared
            else "Values in brackets are 95 % intervals."
        )
        marked = [row[0] in by_number and by_number[row[0]].name in self.roles for row in rows]
        yield {**make_table(table.header, rows, note), "keys": keys, "marked": marked}
        if meanings := define(self.results, [self.metric, *self.headline, *WORDS, *judged_metrics(self.chosen)]):
            yield {"kind": "definitions", "rows": list(meanings.items())}

    def differences(self) -> Iterator[Item]:
        """Yield the differences from the reference, and the configs that may be the best."""
        found = self.compared
        if not found or not found.differences.apart.any():
            return
        may_be_best = dict(zip(found.matrix.configs, found.may_be_best.tolist(), strict=True))
        kept = [one.name for one in self.best_first if may_be_best.get(one.name)]
        named = ", ".join(kept[:MOST_NAMED]) + (
            f" and {len(kept) - MOST_NAMED:,} more" if len(kept) > MOST_NAMED else ""
        )
        several = f"{len(kept):,} of {len(found.matrix.configs):,} configs may be the best: {named}."
        sure = "With 95 % confidence the best is among them."
        any_of_them = f"Any of the {len(kept):,} configs may be the best."
        text = any_of_them if len(kept) == len(found.matrix.configs) else f"{several} {sure}"
        yield {"kind": "text", "text": text}
        note = (
            "Bars are 95 % intervals that hold together. Filled points may be the best config; hollow ones are shown"
            " worse than another."
        )
        yield make_charts([{"label": "", "figure": charts.differences(found, self.choice)}], note)

    def effects(self) -> Iterator[Item]:
        """Yield the effect of each swept parameter on the objective, and the costs of swept indexes and embedders."""
        yield from self._effects_on_quality()
        yield from cost_items(self.best_first, varying_keys(list(self.settings.values())), self.metric)

    def _effects_on_quality(self) -> Iterator[Item]:
        found = self.compared
        if not found or not found.differences.apart.any():
            return
        configs = {name: self.settings[name] for name in found.matrix.configs}
        if changes := self._single_changes():
            tornado = charts.differences(found, self.choice, changes)
            note = (
                "Each bar is one change to the baseline, the largest effect on top, with its 95 % interval. In colour:"
                " for the better."
            )
            yield make_charts([{"label": "", "figure": tornado}], note)
            yield from self._curves(found, list(swept_within(self.best_first, self.metric, ())))
            return
        keys = short_keys(varying_keys(list(configs.values())))
        if self.source.sampler and len(keys) > 1:
            shown = [one for one in self.results if one.name in configs]
            yield make_charts(
                [{"label": "", "figure": effect_charts.parallel(shown, configs, self.metric, keys)}],
                "Each line is a config. The best tenth is in colour.",
            )
        if not self.source.sampler:  # a search has too few configs of each option
            compared = [one for one in self.results if one.name in configs]
            configs = {one.name: values for one, values in zip(compared, factor_values(compared), strict=True)}
        drawn = list(effects(found, configs))
        if not self.source.sampler:
            drawn += swept_within(self.best_first, self.metric, {one.key for one in drawn})
        yield from self._curves(found, drawn)

    def _curves(self, found: SweepComparison, drawn: Sequence[ParameterMeans | Cloud]) -> Iterator[Item]:
        notes = {ParameterMeans: CURVE, Cloud: CLOUD}
        options = []
        for one in drawn:
            note = " ".join([*self._generalising(one), notes[type(one)]])
            options.append(
                {"label": one.name, "figure": effect_charts.effect(one, self.metric, found.unit), "note": note}
            )
        if options:
            yield make_charts(options, "")

    def _generalising(self, shown: ParameterMeans | Cloud) -> Iterator[str]:
        """Yield the flat region of a curve, and the expected score of its best value on unseen questions."""
        if isinstance(shown, Cloud) or shown.numbers is None:
            return
        one = curve_of_best(self.best_first, shown.key, self.metric)
        if one is None:
            return
        low, high = one.flat
        same = f"{low:g} to {high:g} are not shown worse than the best" if low < high else "no neighbour is as good"
        chosen = next(point for point in one.points if point.value == one.chosen)
        often = "" if math.isnan(chosen.chosen) else f" chooses {one.chosen:g} in {chosen.chosen:.0%} of the folds"
        where = (
            f" (of the curve through {one.points[0].config.partition(' ')[0]})"
            if len(one.points) < len(self.best_first)
            else ""
        )
        yield (
            f"Best in sample: {shown.name} {one.best:g}{where}, {number(one.best_mean)}; {same}."
            f" Cross-validation{often}; what it chooses has {number(one.held_out)} on unseen questions."
        )

    def _single_changes(self) -> dict[str, str]:
        """Return each config's change to the reference, if all have one; empty if all change the same parameter."""
        name = self.compared.matrix.configs[self.compared.reference] if self.compared else self.results[0].name
        base = next(one for one in self.results if one.name == name)
        changes = {other.name: factors(base, other) for other in self.results if other is not base}
        ablation = all(len(one) == 1 for one in changes.values()) and len({one[0].name for one in changes.values()}) > 1
        if not ablation:
            return {}
        names = short_keys(list(dict.fromkeys(one[0].name for one in changes.values())))
        return {
            name: f"{name.partition(' ')[0]} {replace(one, name=names[one.name])}"
            for name, (one, *_) in changes.items()
        }

    def slices(self) -> Iterator[Item]:
        """Yield a heatmap for each label of the questions, and box plots."""
        others = [one for one in self.best_first if one not in self.chosen]
        shown = self._sorted([*self.chosen, *others][:MOST_SLICED])
        labels = []
        for label, groups in (shown[0].groups if shown else {}).items():
            scored = [group for group in groups.values() if self.metric in group and group[self.metric].n_scored]
            labels += [label] if len(scored) > 1 else []
        if not labels:
            return
        yield make_charts(
            [{"label": label, "figure": charts.slices(shown, label, self.metric)} for label in labels],
            f"Mean {self.metric} of each config in each slice; n is the number of scored questions."
            " Small slices show large differences only.",
        )
        few = [one for one in self.chosen[:MOST_BOXES] if all(label in one.outcomes for label in labels)]
        if few and self.metric in few[0].outcomes:
            yield make_charts(
                [{"label": label, "figure": charts.boxes(few, label, self.metric)} for label in labels],
                f"The spread of {self.metric} over the questions. Dashed: the mean.",
            )

    def losses(self) -> Iterator[Item]:
        """Yield the stages that lost evidence."""
        yield from funnel_items(list(self.funnels.values()))

    def fusion(self) -> Iterator[Item]:
        """Yield each hybrid against its legs."""
        yield from fusion_items(self._sorted(self.chosen), self.metric)

    def questions(self) -> Iterator[Item]:
        """Yield the browser of questions."""
        if self.chosen and self.metric in self.chosen[0].outcomes:
            metrics = list(dict.fromkeys([self.metric, *self.headline, *judged_metrics(self.chosen)]))
            yield browse(self.chosen, metrics, self.roles, self.funnels, self.source.texts)

    def history(self) -> Iterator[Item]:
        """Yield the results of earlier sweeps on these questions."""
        past = self.source.history
        if len(past) < 2:
            return
        note = (
            f"The best config of each sweep on these questions, by its mean {self.metric}; bars are 95 % intervals. The"
            " corpus and everything else may have changed; each best of several looks better than it is."
        )
        yield make_charts([{"label": "", "figure": charts.history(past, self.metric)}], note)
        header = ["sweep", "when", "swept", ">configs", "best", f">{self.metric}"]
        rows = [
            [one.reference, _when(one.created), one.title, f"{one.configs:,}", one.best, cell(one.summary)]
            for one in past[::-1]
        ]
        yield make_table(header, rows)

    def details(self) -> Iterator[Item]:
        """Yield scores, targets, coverage, failures, times and provenance."""
        yield from histogram_items(self.chosen)
        yield from details.targets(self.chosen)
        yield from details.coverage(self.results, list(dict.fromkeys([self.metric, *self.headline])))
        if self.source.failures:
            yield make_table(
                ["config", "error"], [[one.name, one.error] for one in self.source.failures], "", "Failures"
            )
        if self.compared and self.compared.left_out:
            yield make_table(["config", "why"], list(self.compared.left_out), "", "Not compared")
        yield from details.latency(self.chosen)
        yield from details.environment(self.results)


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
