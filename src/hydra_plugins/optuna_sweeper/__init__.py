"""The Hydra plugin for ``hydra/sweeper=optuna``, which searches with Optuna 5 in any Hydra program."""
