"""Read and write golden sets in the formats of other tools."""
