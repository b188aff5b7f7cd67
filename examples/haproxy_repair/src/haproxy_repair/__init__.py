"""Repair of HAProxy configurations: an example of a user-defined task for ragsweep."""
