"""Systems: evaluate an existing system as it is, over HTTP or as a Python function."""

from ragsweep.parts.systems.http import Http
from ragsweep.parts.systems.python import Pipeline, Python
