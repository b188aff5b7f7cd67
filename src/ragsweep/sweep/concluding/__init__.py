"""Find recorded runs and sweeps, and turn the records of a sweep into its conclusion: summary, finalists and page."""
