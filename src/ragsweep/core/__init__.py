"""Code that all other packages share: data types, protocols and building of parts, results, errors, and helpers."""
