"""Search the configs of any Hydra program with Optuna 5: a trial passes overrides to a job, which returns numbers.

The plugin's entry point is ``hydra_plugins.optuna_sweeper``. Hydra executes each module below ``hydra_plugins`` again
when it searches for plugins, which would duplicate every class; so the implementation is this separate package.
"""
