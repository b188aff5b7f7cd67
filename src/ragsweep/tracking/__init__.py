"""Where results are recorded. The only package that imports mlflow."""

from __future__ import annotations

from ragsweep.tracking.client import Mlflow
from ragsweep.tracking.none import NoTracking
from ragsweep.tracking.spot import Spot

__all__ = ["Mlflow", "NoTracking", "Spot", "Tracker"]

Tracker = Mlflow | NoTracking
