"""Repair of HAProxy configurations: a task of one's own for ragsweep."""
