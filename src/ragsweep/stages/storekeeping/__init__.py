"""Look at a store, check it and empty it, beside processes that use it. Nothing here knows of a terminal."""

from __future__ import annotations

from ragsweep.stages.storekeeping.choosing import Conditions, choose, reachable
from ragsweep.stages.storekeeping.contents import Contents, Item, contents
from ragsweep.stages.storekeeping.evicting import evict, give_back
from ragsweep.stages.storekeeping.place import Place
from ragsweep.stages.storekeeping.results import Results, read_results
from ragsweep.stages.storekeeping.verifying import Checked, checkable, verify

__all__ = [
    "Checked", "Conditions", "Contents", "Item", "Place", "Results", "checkable", "choose", "contents", "evict",
    "give_back", "reachable", "read_results", "verify",
]  # fmt: skip
