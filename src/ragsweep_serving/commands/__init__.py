"""The commands of served models: ``ragsweep ship`` and ``ragsweep watch``."""
