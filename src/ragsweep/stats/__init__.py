"""Statistics: from scores to conclusions."""
