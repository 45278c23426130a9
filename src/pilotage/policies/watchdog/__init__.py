"""Time-outs: move on records that waited too long or went silent."""
