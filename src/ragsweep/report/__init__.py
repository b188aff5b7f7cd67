"""Results for people and programs: tables, a JSON file, a CSV file, charts, the verdict."""
