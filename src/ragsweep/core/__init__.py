"""Shared vocabulary: data between stages, protocols of parts, specs and addresses, part building, results, errors."""
