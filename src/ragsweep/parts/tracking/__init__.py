"""Trackers: record results in MLflow, or discard them; no other package of ragsweep imports mlflow."""

from ragsweep.parts.tracking.client import ALL, CHOSEN, Mlflow
from ragsweep.parts.tracking.none import NoTracking
from ragsweep.parts.tracking.runs import ALONE, DESCRIPTION, Child, RunPlacement

__all__ = ["ALL", "ALONE", "CHOSEN", "DESCRIPTION", "Child", "Mlflow", "NoTracking", "RunPlacement", "Tracker"]

Tracker = Mlflow | NoTracking
