"""The sweeper ``optuna`` under its former ``_target_``, for configs that still contain it."""

from hydra_plugins.optuna_sweeper import sweeper


class OptunaSweeper(sweeper.OptunaSweeper):
    """``hydra_plugins.optuna_sweeper.sweeper.OptunaSweeper`` under its former name."""
