"""Labels that a change of the corpus affects, and their repairs."""
