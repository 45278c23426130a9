"""Describe a machine without a batch system, from its answers, as one site, one storage and one queue."""

import re
from collections.abc import Mapping
from typing import Any

from pilotage.federation.importers.import_result import Entry
from pilotage.federation.importers.inspection import (
    SPACE,
    Inspected,
    free_space,
    note_old_python,
    questions,
    sections,
    small_storage,
)
from pilotage.federation.importers.values import Names

MEMORY_PART = 0.9
"""The part of the machine's memory that payloads may use."""

WALLTIME = 172_800
"""s that a pilot lives."""

QUESTIONS = questions(
    {
        "cores": "nproc",
        "memory": "grep MemTotal /proc/meminfo | tr -dc '0-9\\n'",
        "limit": "cat /sys/fs/cgroup/memory.max 2>/dev/null",
        "gpus": "nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null",
        "home": "pwd",
        "space": SPACE,
        "python": "python3 --version",
        "host": "uname -n",
    }
)
"""Commands for a shell of the machine; ``describe`` reads their output."""


def describe(
    answer: str, kind: str, options: Mapping[str, Any], storage: str = "", name: str = ""
) -> Inspected:
    """Return the site of a machine from its output for ``QUESTIONS``.

    Its computing element gets the ``kind`` and the ``options``. ``storage`` is the URL of its storage; the
    default is a folder below the home of the account, by SFTP. ``name`` is the site's; the default is the
    machine's. Raises ValueError if the output has no number of cores.
    """
    answers = sections(answer)
    cores = _number(answers.get("cores", []))
    if not cores:
        raise ValueError("the machine did not say how many cores it has (nproc): is it Linux?")
    host = (answers.get("host") or ["machine"])[0].partition(".")[0]
    entry = Entry("", None, name or host)
    site = Names().take(entry.name, entry, "name", "machine")
    note_old_python(answers.get("python", []), "the machine", entry)
    if not storage:
        storage = f"sftp://{options['ssh']}{(answers.get('home') or ['/tmp'])[-1]}/pilotage-data"
        entry.note("guessed", "storage", storage, "a folder below the home of the account")
    least = small_storage(free_space(" ".join(answers.get("space", []))), entry)
    queue = _queue(site, kind, options, cores, answers, entry)
    return Inspected(
        {
            "sites": [{"name": site}],
            "storages": [{"name": f"{site}-disk", "site": site, "url": storage, **least}],
            "queues": [queue],
        },
        tuple(entry.notes),
    )


def _queue(
    site: str,
    kind: str,
    options: Mapping[str, Any],
    cores: int,
    answers: Mapping[str, list[str]],
    entry: Entry,
) -> dict[str, Any]:
    """Return a queue of single cores."""
    queue: dict[str, Any] = {
        "name": f"{site}-cores",
        "site": site,
        "storage": f"{site}-disk",
        "cores": 1,
        "computing_element": {
            "kind": kind,
            "max_pilots": cores,
            "pilot_walltime": WALLTIME,
            **({"options": dict(options)} if options else {}),
        },
    }
    entry.note("guessed", "max_pilots", cores, "a pilot for each core, which runs one job of one core")
    sizes = (_number(answers.get("memory", [])) * 1024, _number(answers.get("limit", [])))
    if memory := min((size for size in sizes if size), default=0):
        queue["max_memory"] = int(memory / 1e6 * MEMORY_PART / cores)
        text = f"MB of a job: {MEMORY_PART:.0%} of the memory, shared among the cores"
        entry.note("guessed", "max_memory", queue["max_memory"], text)
    if models := sorted(set(answers.get("gpus", []))):
        text = "GPUs are left out: give architectures and max_pilots by hand"
        entry.note("dropped", "gpus", ", ".join(models), text)
    return queue


def _number(lines: list[str]) -> int:
    match = re.search(r"\d+", " ".join(lines))
    return int(match[0]) if match else 0
