"""``make audit``: are there advisories on packages of the lock? It exits with 1 if there are.

It asks pip-audit. Where no database of advisories can be reached, it says so, and checks what was reviewed by
hand; then it exits with 0 only if that is in order.
"""

import subprocess
import sys

from generators.dependencies import FIXED_IN, LOCK, faults, locked

TIME_LIMIT = 600
"""Seconds for one database to answer about all packages."""


def main() -> int:
    """Print what was found; return the exit code."""
    found = list(faults())
    print("\n".join(found) or f"reviewed: {len(FIXED_IN)} advisories are fixed, and all licences fit")
    for service in ("osv", "pypi"):
        command = [sys.argv[1], "--vulnerability-service", service, "--no-deps"]
        command += ["--disable-pip", "--progress-spinner", "off", "--requirement", str(LOCK)]
        try:
            told = subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
        except subprocess.TimeoutExpired:
            print(f"{service}: no answer within {TIME_LIMIT} s")
            continue
        # A mirror that has packages but no advisories answers for none of them.
        unknown = told.stdout.count("could not be audited")
        if "Traceback" not in told.stderr and unknown < len(locked()) / 2:
            print(f"{service}:\n{told.stdout}{told.stderr}")
            return bool(found) or told.returncode != 0
        print(f"{service}: its advisories cannot be reached from this machine")
    print("NOT AUDITED for new advisories: run it on a machine that reaches one of these")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
