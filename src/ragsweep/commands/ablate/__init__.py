"""``ragsweep ablate``: what each part of a config adds, and each of its parameters."""

from ragsweep.commands.ablate.running import ablate

__all__ = ["ablate"]
