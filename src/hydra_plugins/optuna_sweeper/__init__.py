"""Hydra plugin ``hydra/sweeper=optuna``: search with Optuna 5 in any Hydra program. `optuna_sweeper` implements it."""
