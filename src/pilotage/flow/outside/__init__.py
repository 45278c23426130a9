"""The ways to the outside: workers for calls that block, and what came of the calls."""
