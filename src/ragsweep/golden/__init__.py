"""Read and check corpora and golden sets, and divide golden sets."""
