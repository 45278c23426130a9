"""Run a command of the command line with bounds on its processor time and memory, as long as a server lives.

``python -m pilotage.server.web.simulation_worker SECONDS BYTES PROCESS simulate scenario.yaml …``
"""

import os
import resource
import runpy
import sys
import threading
import time

COMMAND_LINE = "pilotage.cli"


def main() -> None:
    """Set the bounds, and become the command."""
    seconds, size, parent = map(int, sys.argv[1:4])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sys.argv = ["pilotage", *sys.argv[4:]]
    runpy.run_module(COMMAND_LINE, run_name="__main__")


def _end_with(parent: int) -> None:
    """End this process soon after its parent, even if that was killed."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main()
