"""The commands other than `run`: each is a module with a function of the same name."""
