"""Parts: one folder per config group, mirroring ``conf/``, and modules shared by several groups."""
