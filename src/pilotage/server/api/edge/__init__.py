"""What surrounds each request: identity, bounds, errors."""
