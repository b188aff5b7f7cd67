"""The Hydra plugin for ``hydra/sweeper=grid``, which runs every combination of swept values for each case."""
