"""External systems, evaluated as they are."""

from ragsweep.parts.systems.http import Http
from ragsweep.parts.systems.pipeline import Pipeline
from ragsweep.parts.systems.python import Python
