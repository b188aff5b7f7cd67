"""External systems, evaluated unchanged."""

from ragsweep.parts.systems.http import Http
from ragsweep.parts.systems.python import Pipeline, Python
