"""What all other packages share: data types, protocols of parts, part building, results, errors, and small helpers."""
