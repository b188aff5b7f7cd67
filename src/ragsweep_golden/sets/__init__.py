"""Define the entries of a golden set; read, write and compare golden files, and keep their changelogs."""
