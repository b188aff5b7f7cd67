"""The Hydra plugin for ``hydra/sweeper=grid``, which combines swept values with cases (lists of overrides)."""
