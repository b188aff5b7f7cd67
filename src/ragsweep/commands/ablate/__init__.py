"""``ragsweep ablate``: the effect of each part of a config, and of each of its parameters."""

from ragsweep.commands.ablate.running import ablate

__all__ = ["ablate"]
