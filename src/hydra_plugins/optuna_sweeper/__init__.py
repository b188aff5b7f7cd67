"""Hydra plugin ``hydra/sweeper=optuna``: search with Optuna 5, for any Hydra program, by `optuna_sweeper`."""
