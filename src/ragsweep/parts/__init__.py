"""Parts: one folder or module per config group in ``conf/``, and modules shared by several groups."""
