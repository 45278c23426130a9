"""Names of the files that Pilotage makes at storages, and its own names in a job's directory.

Several Pilotages may share a storage, so every name contains the instance's name, which is its federation's.
"""

import re
from hashlib import sha256

from pilotage.model.values.patterns import literal_beginning

LONGEST_FILE_NAME, MOST_BYTES_OF_NAME = 500, 1000
"""Most characters of a file's name, and bytes in UTF-8: an index of PostgreSQL takes no more."""

_FIRST, _OTHER = r"[^./\x00-\x1f\x7f-\x9f]", r"[^/\x00-\x1f\x7f-\x9f]"

PLAIN_NAME = rf"(\.{{0,2}}{_FIRST}{_OTHER}*|\.{{3}}{_OTHER}*)"
"""Any name of a file or folder but ``.`` and ``..``, without control characters."""

FILE_NAME = f"{PLAIN_NAME}(/{PLAIN_NAME})*"

OWN_FOLDERS = (".scratch", ".copies", ".uploads")
"""Folders at the root of every storage that Pilotage keeps for itself."""

SCRATCH, COPIES, UPLOADS = OWN_FOLDERS
"""The folders of attempts' outputs, of copies that Pilotage makes, and of files that people upload.

No logical name is in them, and patterns find nothing there.
"""

_PART = re.compile(r"\..*\.\d+\.\d+(-ask)?\.part")

OUTPUTS = "tasks"
"""The folder of accepted outputs."""

INPUTS = frozenset({"inputs", "inputs.txt", "tmp", ".container-environment", ".payload-secrets"})
"""What an agent puts into a job's directory before the payload starts. Outputs have other names."""

RESERVED = INPUTS | {"stdout", "stderr"}
"""The same with the payload's output streams, which may be outputs. Payload files have other names."""

FILE_NAMES = (
    f"names are relative paths in UTF-8, of up to {LONGEST_FILE_NAME} characters and {MOST_BYTES_OF_NAME} "
    "bytes, without control characters, empty parts, . and .., and not below "
    f"{', '.join(OWN_FOLDERS[:-1])} or {OWN_FOLDERS[-1]}"
)
"""The rule of ``is_file_name`` in words."""


def is_file_name(name: str) -> bool:
    """Return whether a file may have this name in the catalogue."""
    return (
        len(name) <= LONGEST_FILE_NAME
        and is_text(name)
        and len(name.encode()) <= MOST_BYTES_OF_NAME
        and re.fullmatch(FILE_NAME, name) is not None
        and not is_own(name)
    )


def is_text(name: str) -> bool:
    """Return whether a name is text: bytes that are no UTF-8 become lone surrogates, which cannot be sent."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_part(path: str) -> bool:
    """Return whether a path belongs to a file that a delivery has not finished."""
    return _PART.fullmatch(path.rpartition("/")[2]) is not None


def scratch_path(instance: str, job: int, attempt: int, name: str = "") -> str:
    """Return the path of an attempt's output before delivery, below its queue's storage; without a name,
    its folder."""
    return f"{SCRATCH}/{instance}/{job}.{attempt}/{name}".rstrip("/")


def copy_path(instance: str, file: str) -> str:
    """Return the path below a storage of Pilotage's copy of a file, by the file's identifier
    ``SCOPE:NAME``."""
    return f"{COPIES}/{instance}/{file.replace(':', '/', 1)}"


def is_copy(path: str) -> bool:
    """Return whether a path belongs to a copy that Pilotage made."""
    return path.startswith(f"{COPIES}/")


def uploads_folder(instance: str, vo: str, person: str = "") -> str:
    """Return the folder below a storage of a VO's uploads, or of one person's.

    Their names may have slashes and dots, so the folder has digests of them.
    """
    names = (vo, person) if person else (vo,)
    return "/".join((UPLOADS, instance, *(sha256(name.encode()).hexdigest()[:20] for name in names)))


def upload_path(folder: str, upload: str, name: str) -> str:
    """Return the path of a file in a person's folder. Each upload has its own folder there: two of one name
    never meet."""
    return f"{folder}/{upload}/{name.rpartition('/')[2]}"


def upload_folder(path: str) -> str:
    """Return the folder of the upload that a path belongs to; empty if it belongs to none."""
    parts = path.split("/")
    return "/".join(parts[:5]) if parts[0] == UPLOADS and len(parts) > 4 else ""


def is_stored_here(path: str) -> bool:
    """Return whether Pilotage wrote the bytes at a path, checked them, and may delete them: a copy, or an
    upload."""
    return is_copy(path) or bool(upload_folder(path))


def is_scratch(path: str) -> bool:
    """Return whether a path is below the folder of attempts' outputs."""
    return path.startswith(f"{SCRATCH}/")


def output_name(instance: str, task: int, job: int, name: str) -> str:
    """Return the logical name of a job's output."""
    return f"{OUTPUTS}/{instance}/{task}/{job}/{name}"


def path_in_job(output: str) -> str:
    """Return the path of an output in its job's directory, from its logical name or identifier."""
    return output.split("/", 4)[-1]


def is_output(file: str) -> bool:
    """Return whether a logical name belongs to a task's output, of this instance or another."""
    return file.startswith(f"{OUTPUTS}/")


def is_of_job(path: str) -> bool:
    """Return whether a path belongs to an output of a job: ``tasks/INSTANCE/TASK/JOB/NAME``."""
    folder, instance, task, job, name = (*path.split("/", 4), *[""] * 4)[:5]
    return folder == OUTPUTS and task.isdecimal() and job.isdecimal() and bool(instance and name)


def makers(instance: str, glob: str) -> int | None:
    """Return the task of this instance that all outputs of a pattern belong to; None if it may be several."""
    fixed = literal_beginning(glob)
    return maker(instance, fixed) if fixed.count("/") > 2 else None


def maker(instance: str, file: str) -> int | None:
    """Return the task of this instance that made an output, by its logical name; None for other names."""
    folder, _, rest = file.partition("/")
    name, _, rest = rest.partition("/")
    number = rest.partition("/")[0]
    # That many digits fit 64 bits. A longer number belongs to no task of any store.
    if (folder, name) != (OUTPUTS, instance) or not number.isdecimal() or len(number) > 18:
        return None
    return int(number)


def is_own(path: str) -> bool:
    """Return whether a path below a storage's URL is in a folder that Pilotage keeps for itself."""
    return path.partition("/")[0] in OWN_FOLDERS
