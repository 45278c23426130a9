"""``python -m pilotage.cli`` is the ``pilotage`` command."""

from pilotage.cli import main

main()
