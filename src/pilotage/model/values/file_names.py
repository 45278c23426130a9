"""What a file may be called, without the types that check it: the client needs no more."""

LONGEST_FILE_NAME, MOST_BYTES_OF_NAME = 500, 1000
"""Most characters of a file's name, and bytes in UTF-8: an index of PostgreSQL takes no more."""

_FIRST, _OTHER = r"[^./\x00-\x1f\x7f-\x9f]", r"[^/\x00-\x1f\x7f-\x9f]"
PLAIN_NAME = rf"(\.{{0,2}}{_FIRST}{_OTHER}*|\.{{3}}{_OTHER}*)"
"""Any name of a file or folder but ``.`` and ``..``, without control characters."""

FILE_NAME = f"{PLAIN_NAME}(/{PLAIN_NAME})*"
OWN_FOLDERS = (".scratch", ".copies")
"""Folders at the root of every storage that Pilotage keeps for itself."""


def is_own(path: str) -> bool:
    """Return whether a path below a storage's URL lies in a folder that Pilotage keeps for itself."""
    return path.partition("/")[0] in OWN_FOLDERS
