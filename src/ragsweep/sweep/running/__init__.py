"""From a job to its record: prepare, launch, evaluate, record, track."""
