"""Run sweeps of configs: compose, plan, run, resume, search, race, conclude."""
