"""Hydra plugin ``hydra/sweeper=grid``: the product of what is swept, for each of a list of cases."""
