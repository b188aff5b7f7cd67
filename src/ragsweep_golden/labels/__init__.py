"""Find labels that a change of the corpus affects, and repair them."""
