"""Turn records into conclusions: a sweep's summary, its page, its finalists, earlier sweeps."""
