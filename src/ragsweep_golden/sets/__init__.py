"""The file of a golden set: the schema of its entries, reading, writing, and its changelog."""
