"""External systems, evaluated unchanged."""

from ragsweep.parts.systems.http import Http
from ragsweep.parts.systems.pipeline import Pipeline
from ragsweep.parts.systems.python import Python
