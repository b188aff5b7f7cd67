"""The commands, each a module with a function of the same name, and the modules that they share."""
