"""Presentation of results: tables, charts, verdicts, an HTML page, and JSON and CSV files."""
