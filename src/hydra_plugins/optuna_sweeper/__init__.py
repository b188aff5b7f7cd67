"""Hydra plugin ``hydra/sweeper=optuna``: search with Optuna 5, for any Hydra program. Its body is `optuna_sweeper`."""
