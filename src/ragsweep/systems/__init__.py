"""Systems that exist already, and are evaluated as they are."""

from ragsweep.systems.http import Http
from ragsweep.systems.pipeline import Pipeline
from ragsweep.systems.python import Python

__all__ = ["Http", "Pipeline", "Python"]
