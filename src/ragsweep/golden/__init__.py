"""Read, check and divide corpora and golden sets."""
