"""``python -m pilotage.cli`` is the ``pilotage`` command."""

from . import main

main()
