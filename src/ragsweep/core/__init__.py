"""Code that all other packages share: data types, protocols and builder of parts, results, errors, and helpers."""
