"""Run a command of the command line with bounds on its processor time and memory.

``python -m pilotage.web.simulation_worker SECONDS BYTES simulate scenario.yaml …``
"""

import resource
import runpy
import sys

COMMAND_LINE = "pilotage.cli"


def main() -> None:
    """Set the bounds, and become the command."""
    seconds, size = int(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.argv = ["pilotage", *sys.argv[3:]]
    runpy.run_module(COMMAND_LINE, run_name="__main__")


if __name__ == "__main__":
    main()
