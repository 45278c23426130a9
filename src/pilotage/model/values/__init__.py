"""Values in records: types with their bounds, names, patterns, expressions."""
