"""The store of results: the ledger, its file format, names and claims."""
