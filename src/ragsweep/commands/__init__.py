"""The commands beside `run`: each is a module, or a package of them, with a function of its own name."""
