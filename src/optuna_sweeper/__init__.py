"""Search the configs of any Hydra program with Optuna 5. Overrides in, numbers out.

The face of the plugin is ``hydra_plugins.optuna_sweeper``. Hydra executes each module below ``hydra_plugins`` again
when it looks for plugins, which would make a second class of each name; so the body is a package beside it.
"""
