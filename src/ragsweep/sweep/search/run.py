"""Run a search: read its space, open its study, launch its trials, and leave a summary."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from hydra.core.utils import JobReturn
from hydra.utils import get_method
from omegaconf import OmegaConf

from ragsweep.sweep.search import plots, summary
from ragsweep.sweep.search.loop import Launch, SearchLoop
from ragsweep.sweep.search.samplers import GRID
from ragsweep.sweep.search.settings import SearchSettings
from ragsweep.sweep.search.signatures import SearchComposer
from ragsweep.sweep.search.space import Space, merge_overrides, read_space
from ragsweep.sweep.search.storage import open_storage
from ragsweep.sweep.search.study import SharedStudy, StudyPlan, digest, open_study

_log = logging.getLogger(__name__)


def run_search(
    settings: SearchSettings, arguments: Sequence[str], launch: Launch, composer: SearchComposer, folder: Path
) -> list[Sequence[JobReturn]]:
    """Search, and return the results of the jobs that this process launched, a list a batch.

    No job starts before each value of each parameter was composed once. What came of the study is written to
    ``optimization_results.yaml`` in the folder.
    """
    space = read_space(arguments, settings.params, composer.loader)
    if settings.sampler["name"] == GRID:
        space.points()
    for probe in space.probes(settings.default):
        composer.compose(probe)
    plan = _plan(settings, space, composer)
    storage = open_storage(settings.storage)
    try:
        study = open_study(plan, space, storage)
        loop = SearchLoop(
            study, launch, composer.sign, settings.n_jobs, settings.max_failure_rate, settings.constraints,
            settings.stop, settings.race,
        )  # fmt: skip
        try:
            results = loop.run()
        except BaseException:
            with suppress(Exception):  # the user should read what ended the search
                _write_summary(settings, study, folder)
            raise
        _write_summary(settings, study, folder)
        return results
    finally:
        storage.close()


def _plan(settings: SearchSettings, space: Space, composer: SearchComposer) -> StudyPlan:
    subject = settings.subject or " ".join(sorted(space.fixed))
    suffix = digest([space.description(), settings.directions, subject])[:8]
    first = [()] if settings.default else []
    lists = [merge_overrides(space.fixed, lines) for lines in [*first, *settings.enqueue]]
    extend = settings.custom_search_space
    return StudyPlan(
        settings.study_name or f"{composer.program}-{suffix}",
        settings.directions,
        subject,
        settings.sampler,
        settings.n_trials,
        tuple((lines, space.locate_config(composer.values(lines, space.parameters))) for lines in lists),
        settings.lapse,
        partial(get_method(extend), composer.config()) if extend else None,
    )


def _write_summary(settings: SearchSettings, study: SharedStudy, folder: Path) -> None:
    """Write the study's summary and plots."""
    OmegaConf.save(OmegaConf.create(summary.optimization_results(study.optuna)), folder / "optimization_results.yaml")
    target = Path(settings.folder) if settings.folder else folder
    plain = summary.summarise(study, settings)
    summary.write_summary(plain, target)
    if settings.plots:
        names = summary.objective_names(settings.objectives, len(settings.directions))
        plots.draw(study.optuna, names, target / "plots")
    _log.info("study %s: %s %s", study.plan.name, plain["states"], plain["stopped"])
