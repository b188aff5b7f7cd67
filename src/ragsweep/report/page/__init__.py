"""A sweep as a page: text, charts, tables, and its questions one by one; and a page of all sweeps."""
