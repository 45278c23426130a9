"""Start a pilot: ``python -m pilotage.agent``, or ``python agent.pyz``.

Any Python can parse this file: an old interpreter prints the message below instead of a syntax error.
"""

import sys

OLDEST = (3, 9)

if sys.version_info < OLDEST:
    sys.exit(
        "A Pilotage pilot needs Python 3.9 or newer, and this one is older: " + sys.executable + "\n"
        "Start it with another interpreter, for example: python3.9 agent.pyz"
    )

from .command import main  # noqa: E402

if __name__ == "__main__":
    main()
