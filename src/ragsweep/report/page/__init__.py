"""The page of a sweep: texts, charts, tables, and the questions one by one."""
