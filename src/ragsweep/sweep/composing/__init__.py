"""Turn overrides into checked jobs: expand, compose, check."""
