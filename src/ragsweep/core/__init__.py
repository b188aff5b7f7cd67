"""Vocabulary: data between stages, protocols of parts, specs and addresses, building a part, results, errors."""
