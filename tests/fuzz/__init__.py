"""``make fuzz``: requests from the OpenAPI document to a real server."""
