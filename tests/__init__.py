"""The tests. Python looks for no garbage until they are all collected: see ``conftest.pytest_collection``."""

import gc

# First of all imports: what they make stays, and to look through it again and again took a fifth of the time.
gc.disable()
