"""The ledger of results: its file, the format of its records, and the names and claims that it contains."""
