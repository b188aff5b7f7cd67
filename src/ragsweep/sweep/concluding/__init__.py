"""Records to conclusions: the summary of a sweep, its page, its finalists, earlier sweeps."""
