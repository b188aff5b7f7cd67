"""Call models over HTTP, with retries, rate limits and budgets."""
