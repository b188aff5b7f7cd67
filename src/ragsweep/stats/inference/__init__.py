"""Statistical inference from a matrix of scores, with one row per config and one column per question."""
