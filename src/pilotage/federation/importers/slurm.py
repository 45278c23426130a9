"""A Slurm cluster's own description: its partitions become queues of one site."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pilotage.federation.importers.import_result import Entry
from pilotage.federation.importers.inspection import (
    SECTION,
    Inspected,
    free_space,
    note_old_python,
    questions,
    sections,
    small_storage,
)
from pilotage.federation.importers.values import Names
from pilotage.model.values.durations import slurm_seconds

__all__ = ["QUESTIONS", "SECTION", "describe"]

DEFAULT_WALLTIME = 172_800
MOST_PILOTS = 500
"""Most pilots of a queue, or fewer if its partition has fewer slots. The guess leaves room for other
users."""

_ASKED = {
    "partitions": "sinfo --noheader --exact --format='%P|%a|%l|%D|%c|%m|%G'",
    "configuration": "scontrol show config",
    "accounts": "sacctmgr --noheader --parsable2 show assoc user=$(id -un) format=account,partition,qos",
    "places": 'for place in "$SCRATCH" "$WORK" "$HOME"; do [ -d "$place" ] && df -Pk "$place" | tail -1 '
    '&& echo "path|$place"; done',
    "python": "python3 --version",
    "host": "uname -n",
}
QUESTIONS = questions(_ASKED)
"""Commands for a shell of the cluster; ``describe`` reads their output."""


@dataclass
class _Partition:
    """A partition. If its groups of nodes differ, the smallest node decides."""

    name: str
    is_up: bool
    limit: str
    slots: int = 0
    memory: float = 0
    gres: set[str] = field(default_factory=set)


def describe(answer: str, options: Mapping[str, Any], site: str = "") -> Inspected:
    """Return the site of a cluster from its output for ``QUESTIONS``.

    ``options`` apply to all its computing elements. ``site`` is its name; by default the cluster's own.
    Raises ValueError if the output has no partition.
    """
    answers = sections(answer)
    partitions = list(_partitions(answers.get("partitions", [])))
    if not partitions:
        raise ValueError(
            "sinfo names no partition: is this a Slurm cluster, and are its commands in the PATH?"
        )
    configured = dict(_pairs(answers.get("configuration", [])))
    entry = Entry("", None, site or configured.get("ClusterName") or (answers.get("host") or ["cluster"])[0])
    name = Names().take(entry.name, entry, "name", "cluster")
    options = {**options, **_asked_of_all(answers, configured, entry)}
    storage = _storage(name, answers.get("places", []), entry)
    queues = [_queue(name, partition, options, entry) for partition in partitions]
    records: dict[str, list[dict[str, Any]]] = {
        "sites": [{"name": name}],
        "storages": [storage],
        "queues": queues,
    }
    return Inspected(records, tuple(entry.notes))


def _pairs(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, mark, value = line.partition("=")
        if mark:
            yield name.strip(), value.strip()


def _partitions(lines: list[str]) -> Iterator[_Partition]:
    partitions: dict[str, _Partition] = {}
    for line in lines:
        values = line.split("|")
        if len(values) != 7 or not values[3].isdecimal():
            continue
        name, availability, limit, nodes, cores, memory, gres = values
        each = int(cores.rstrip("+") or 1) if cores.rstrip("+").isdecimal() else 1
        part = partitions.setdefault(name, _Partition(name.rstrip("*"), availability == "up", limit))
        part.slots += int(nodes) * each
        if memory.rstrip("+").isdecimal():
            share = int(memory.rstrip("+")) / max(each, 1)
            part.memory = min(part.memory or share, share)
        part.gres.add(re.sub(r"\([^)]*\)", "", gres))
    yield from partitions.values()


def _asked_of_all(
    answers: Mapping[str, list[str]], configured: Mapping[str, str], entry: Entry
) -> dict[str, Any]:
    """Return options for every partition: the account, the largest array, a Python that is new enough."""
    options: dict[str, Any] = {}
    accounts = sorted({line.partition("|")[0] for line in answers.get("accounts", []) if "|" in line})
    if accounts:
        options["account"] = accounts[0]
        text = f"one of {', '.join(accounts)}" if len(accounts) > 1 else "the only one of this user"
        entry.note("guessed", "account", accounts[0], text)
    largest = configured.get("MaxArraySize", "")
    # 200 is the adapter's default. A lower limit of the cluster replaces it.
    if largest.isdecimal() and int(largest) - 1 < 200:
        options["array"] = max(1, int(largest) - 1)
        text = "the highest index of an array is Slurm's MaxArraySize - 1"
        if int(largest) < 3:
            text = "pilots are single jobs: Slurm's MaxArraySize leaves no index above 1"
        entry.note("clipped", "array", largest, text)
    note_old_python(answers.get("python", []), "the login node", entry)
    return options


def _storage(site: str, lines: list[str], entry: Entry) -> dict[str, Any]:
    """Return the directory with the most room: $SCRATCH, $WORK, or the home directory."""
    places: list[tuple[str, float]] = []
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        free_there = free_space(line)
        if following.startswith("path|") and free_there is not None:
            places.append((following.removeprefix("path|"), free_there))
    path, free = places[0] if places else ("/scratch", 1000.0)
    if not places:
        text = "no place was found, neither $SCRATCH, $WORK nor a home: put the path right"
        entry.note("guessed", "storage", path, text)
    text = (
        f"a directory of the cluster, {free:.0f} GB free on its whole file system; this server stages files "
        "there only where it has the same directory mounted: else give a storage that both reach"
    )
    entry.note("guessed", "storage", path, text)
    return {
        "name": f"{site}-disk",
        "site": site,
        "url": f"file://{path}/pilotage-data",
        "free": round(free),
        **small_storage(free, entry),
    }


def _queue(site: str, partition: _Partition, options: Mapping[str, Any], entry: Entry) -> dict[str, Any]:
    """Return a queue of single cores. A GPU partition gives one GPU to each pilot."""
    limit = slurm_seconds(partition.limit)
    element_options = {**options, "partition": partition.name}
    queue: dict[str, Any] = {
        "name": f"{site}-{partition.name}",
        "site": site,
        "storage": f"{site}-disk",
        "cores": 1,
    }
    subject = f"partition {partition.name}"
    entry.note("guessed", "cores", 1, f"{subject}: single cores; make queues of more cores by hand")
    if partition.memory:
        queue["max_memory"] = memory = int(partition.memory)
        entry.note("guessed", "max_memory", memory, f"{subject}: MB of its smallest node, by core")
    if limit:
        queue["max_walltime"] = limit
    else:
        entry.note(
            "guessed", "pilot_walltime", partition.limit, f"{subject} has no limit: pilots ask for two days"
        )
    if not partition.is_up:
        queue["status"] = "offline"
        entry.note("converted", "status", "down", f"{subject} is not up: its queue is offline")
    if models := _gpus(partition.gres):
        element_options["gres"] = "gpu:1"
        queue["architectures"] = [{"type": "gpu", "model": models or ["any"]}]
        entry.note("guessed", "gres", ", ".join(sorted(partition.gres)), f"{subject}: a GPU for each pilot")
    pilots = max(1, min(MOST_PILOTS, partition.slots))
    entry.note(
        "guessed", "max_pilots", pilots, f"{subject}: it has {partition.slots} cores, for all its users"
    )
    queue["computing_element"] = {
        "kind": "slurm",
        "max_pilots": pilots,
        "pilot_walltime": limit or DEFAULT_WALLTIME,
        "options": element_options,
    }
    return queue


def _gpus(gres: set[str]) -> list[str]:
    """Return the models of GPUs, ``any`` if a node does not name it; none if a node has no GPU."""
    models: set[str] = set()
    for resources in gres:
        gpus = [part.split(":") for part in resources.split(",") if part.split(":")[0] == "gpu"]
        if not gpus:
            return []
        models |= {parts[1] if len(parts) > 2 else "any" for parts in gpus}
    return sorted(models)
