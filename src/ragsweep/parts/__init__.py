"""One folder a config group, the mirror of ``conf/``, and what several groups share."""
