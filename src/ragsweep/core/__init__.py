"""Shared code of all other packages: data types, protocols of parts, part building, results, errors, and helpers."""
