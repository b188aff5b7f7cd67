"""Results for people and programs: tables, one JSON, one CSV, charts, the verdict."""
