"""Hydra plugin ``hydra/sweeper=optuna``: search with Optuna 5, for any Hydra program. Overrides in, numbers out.

Hydra runs every module of a plugin again when it looks for plugins; those that hold something begin with an underscore.
"""

from hydra_plugins.ragsweep_optuna._postgresql import is_postgresql, reach
from hydra_plugins.ragsweep_optuna._pruning import PRUNERS, pruned
from hydra_plugins.ragsweep_optuna._settings import read_settings
from hydra_plugins.ragsweep_optuna._signing import Composed
from hydra_plugins.ragsweep_optuna._space import Space, merged, read_space

__all__ = ["PRUNERS", "Composed", "Space", "is_postgresql", "merged", "pruned", "reach", "read_settings", "read_space"]
