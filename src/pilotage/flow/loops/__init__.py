"""The loops that run the steps: their wake-ups, their reads, and the records that they set aside."""
