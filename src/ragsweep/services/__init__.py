"""Call models over HTTP: retries, rates, budgets."""
