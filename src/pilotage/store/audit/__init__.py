"""The audit: records of what people and their tokens did, chained by hashes."""
