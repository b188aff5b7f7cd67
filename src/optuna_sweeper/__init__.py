"""Search the configs of any Hydra program with Optuna 5: a trial passes overrides to a job, which returns numbers.

The entry point of the plugin is ``hydra_plugins.optuna_sweeper``. The implementation is this separate package: to
discover plugins, Hydra executes each module below ``hydra_plugins`` again, which would duplicate every class.
"""
