"""The words: what flows, what a part offers, specs and addresses, building a part, results, errors."""
