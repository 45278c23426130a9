"""Man pages and completion of the shells, for packages: ``python docs/manual.py FOLDER``."""

import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

from generators.manual import shared_files


def main(folder: Path) -> None:
    """Write the files below the folder, as of ``SOURCE_DATE_EPOCH`` if it is set."""
    moment = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    for place, text in shared_files(version("pilotage"), moment).items():
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
