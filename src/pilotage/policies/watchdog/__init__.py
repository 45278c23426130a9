"""Time-outs: end or rebroker records that waited too long or went silent."""
