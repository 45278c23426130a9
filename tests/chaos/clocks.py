"""Clocks that jump: a server's Python shows another time. Steady clocks stay as they are."""

from pathlib import Path

JUMPS = (-3600, -60, -5, 5, 60, 3600)
"""Seconds by which clocks jump."""

_MODULE = """
import time
real, told = time.time, [0.0, -1.0]
def false():
    if time.monotonic() > told[1] + 0.2:
        with open({file!r}) as file:
            told[:] = float(file.read()), time.monotonic()
    return real() + told[0]
time.time = false
"""


class FalseClock:
    """The clock of some processes, which look at a file five times a second."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        # Python imports a module of this name at its start.
        (folder / "sitecustomize.py").write_text(_MODULE.format(file=str(folder / "ahead")))
        self.set(0)

    def set(self, seconds: int) -> None:
        """Let the clock stand so many seconds ahead of the right time; below 0: behind it."""
        draft = self._folder / "new"
        draft.write_text(str(seconds))
        draft.replace(self._folder / "ahead")

    def environment(self) -> dict[str, str]:
        """Return the variables of processes that have this clock."""
        return {"PYTHONPATH": str(self._folder)}
