"""Real programs that tests talk to, each started on this machine."""
