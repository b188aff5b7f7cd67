"""Calls to services by HTTP: many at a time, with patience, and every failure has a reason."""

from __future__ import annotations

from ragsweep.services.calls.endpoint import Endpoint, Reply
from ragsweep.services.calls.failures import CallError, CallFailed, EndpointFailed
from ragsweep.services.calls.loop import each, in_caller, run
from ragsweep.services.calls.service import Service
from ragsweep.services.calls.spending import Budget, Spent

__all__ = [
    "Budget",
    "CallError",
    "CallFailed",
    "Endpoint",
    "EndpointFailed",
    "Reply",
    "Service",
    "Spent",
    "each",
    "in_caller",
    "run",
]
