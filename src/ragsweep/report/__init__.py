"""Results for people and programs: tables, charts, the verdict, an HTML page, and JSON and CSV files."""
