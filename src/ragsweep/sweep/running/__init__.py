"""A job to its record: prepare, launch, evaluate, record, track."""
