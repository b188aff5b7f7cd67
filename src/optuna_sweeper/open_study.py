"""Open a study: create it, or continue an existing study with the same space, directions and subject."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.errors import HydraException

from optuna_sweeper.samplers import seeded_sampler
from optuna_sweeper.settings import SearchSettings
from optuna_sweeper.space import Space, read_space
from optuna_sweeper.storage import Storage, open_storage
from optuna_sweeper.study import SharedStudy, StudyPlan
from optuna_sweeper.trials import EVALUATION, OVERRIDES, TWIN, count_final_duplicates, is_abandoned

FORMAT = 2
_IDENTITY, _FORMAT = "identity", "format"

REPEATED = 20
"""Number of duplicates in a row after which trials are drawn at random, because the sampler only repeats configs."""


def open_study(plan: StudyPlan, space: Space, storage: Storage) -> SharedStudy:
    """Open the study with the plan's name, or with a name that ends in the plan's suffix; create it if there is none.

    Raises HydraException if the existing study has a different space, direction, subject (what is measured) or format.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    directions: Any = list(plan.directions)
    identity = _identity(space, directions, plan.subject)
    with storage.exclusive():
        if plan.suffix:
            known = optuna.get_all_study_names(storage.optuna)
            plan = replace(plan, name=next((name for name in known if name.endswith(plan.suffix)), plan.name))
        study = optuna.create_study(
            study_name=plan.name,
            storage=storage.optuna,
            sampler=seeded_sampler(plan.sampler, _draw, partial(_is_point, plan)),
            directions=directions,
            load_if_exists=True,
        )
        if _IDENTITY in study.user_attrs:
            _check_identity(plan.name, study.user_attrs, identity)
        else:
            study.set_user_attr(_FORMAT, FORMAT)
            study.set_user_attr(_IDENTITY, identity)
        if plan.objectives:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                study.set_metric_names(list(plan.objectives))
    return SharedStudy(plan, space, storage, study)


def check_study(values: Mapping[str, Any], arguments: Sequence[str], loader: ConfigLoader) -> None:
    """Raise HydraException if the storage is unusable, or if ``study_name`` names the study of another search.

    ``values`` are the settings of ``OptunaSweeperConf``, and ``arguments`` are the overrides on the command line.
    Invalid settings and an invalid space also raise HydraException.
    """
    import optuna

    settings = SearchSettings.read(values)
    space = read_space(arguments, settings.params, loader)
    subject = settings.subject or default_subject(space)
    storage = open_storage(settings.storage)
    try:
        if (name := settings.study_name) and name in optuna.get_all_study_names(storage.optuna):
            attributes = optuna.load_study(study_name=name, storage=storage.optuna).user_attrs
            if _IDENTITY in attributes:
                _check_identity(name, attributes, _identity(space, settings.directions, subject))
    finally:
        storage.close()


def default_subject(space: Space) -> str:
    """Return the subject of a search whose settings name none: the overrides that all trials share."""
    return " ".join(sorted(space.fixed))


def _identity(space: Space, directions: Sequence[str], subject: str) -> dict[str, Any]:
    return {"space": space.description(), "direction": list(directions), "subject": subject}


def _listed(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _check_identity(name: str, attributes: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    """Raise HydraException if the attributes of study ``name`` have another format or identity."""
    if (version := attributes.get(_FORMAT, 1)) != FORMAT:
        raise HydraException(
            f'hydra.sweeper.storage: study "{name}" was created by another version of optuna_sweeper (format'
            f" {version}; this version reads format {FORMAT}); use that version, another storage, or another"
            " hydra.sweeper.study_name"
        )
    known = attributes[_IDENTITY]
    if differing := [key for key in identity if known.get(key) != identity[key]]:
        before, now = known.get("space", []), identity["space"]
        names = sorted({one[0] for one in [*before, *now] if one not in before or one not in now})
        space = f"another space: {', '.join(names)}" if names else "its parameters in another order"
        theirs = [space if key == "space" else f"the {key} {_listed(known.get(key))}" for key in differing]
        raise HydraException(
            f'hydra.sweeper.study_name: study "{name}" belongs to another search (with {" and ".join(theirs)});'
            " use another name, or repeat the command of that search"
        )


def _draw(study: Any, trial: Any) -> tuple[int, bool]:
    """Return the index of a trial, not counting retries and abandoned trials, and whether to use the random sampler.

    The random sampler is used for a retry, because its values are fixed. It is also used for any trial after REPEATED
    consecutive duplicates.
    """
    trials = study.get_trials(deepcopy=False)
    earlier = [one for one in trials if one.number < trial.number and not is_abandoned(one)]
    index = sum(one.user_attrs.get(EVALUATION, {}).get("retry_of") is None for one in earlier)
    is_retry = EVALUATION in trial.user_attrs
    return index, is_retry or count_final_duplicates(trials) >= REPEATED


def _is_point(plan: StudyPlan, trial: Any) -> bool:
    """Return whether a trial has a value for every parameter.

    A drawn trial has all values if it is evaluated or a duplicate. Trial 0 has all values if it is evaluated and
    ``plan.extend`` is None. Any other enqueued trial may lack values.
    """
    attributes = trial.user_attrs
    if OVERRIDES not in attributes:
        return EVALUATION in attributes or TWIN in attributes
    is_zero = plan.has_zero and tuple(attributes[OVERRIDES]) == plan.first[0][0]
    return is_zero and plan.extend is None and EVALUATION in attributes
