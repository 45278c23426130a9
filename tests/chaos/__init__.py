"""A seeded storm on a real Pilotage: ``make chaos MINUTES=5 SEED=7`` (see docs/explanation/withstands.md)."""
