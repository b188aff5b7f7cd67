"""Read golden sets from the formats of other tools, and write them."""
