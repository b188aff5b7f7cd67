"""Search the configs of any Hydra program with Optuna 5. Overrides in, numbers out.

The plugin's entry point is ``hydra_plugins.optuna_sweeper``. Hydra executes each module below ``hydra_plugins`` again
when it looks for plugins, which would duplicate every class; so the body is a separate package.
"""
