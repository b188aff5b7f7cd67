"""Decide which configs are run in which order: compose, plan, run, resume, search, race, conclude."""
