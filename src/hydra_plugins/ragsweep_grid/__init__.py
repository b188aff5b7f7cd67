"""Hydra plugin ``hydra/sweeper=grid``: the product of the swept values, for each of a list of cases."""
