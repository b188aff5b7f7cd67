"""Where results are recorded. The only package that imports mlflow."""

from __future__ import annotations

from ragsweep.tracking.children import ALONE, Child, Place
from ragsweep.tracking.client import Mlflow
from ragsweep.tracking.none import NoTracking

__all__ = ["ALONE", "Child", "Mlflow", "NoTracking", "Place", "Tracker"]

Tracker = Mlflow | NoTracking
