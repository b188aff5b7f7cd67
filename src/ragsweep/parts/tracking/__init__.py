"""Where results are recorded. The only package that imports mlflow."""

from __future__ import annotations

from ragsweep.parts.tracking.children import ALONE, Child, Place
from ragsweep.parts.tracking.client import Mlflow
from ragsweep.parts.tracking.none import NoTracking

__all__ = ["ALONE", "Child", "Mlflow", "NoTracking", "Place", "Tracker"]

Tracker = Mlflow | NoTracking
