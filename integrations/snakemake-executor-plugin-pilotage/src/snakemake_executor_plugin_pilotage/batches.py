"""Jobs of one rule as the rows of one task: each row carries its command."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix
from shlex import quote
from typing import Any
from uuid import uuid4

MOST_ROWS = 1000
"""Most jobs of one task, so that one request stays small."""

MOST_BYTES = 2_000_000
"""Most bytes of the commands of one task."""

PIECE = 1000
"""Characters of a parameter: a value has 4,096 bytes at most."""

MOST_PIECES = 90
"""Most parameters that one command fills."""

LONGEST_NAME = 200

LABEL = "snakemake"
"""The label that finds the tasks of a working directory."""


@dataclass(frozen=True)
class Row:
    """One job of Snakemake, as a job of a task."""

    job: Any
    name: str
    """What a person calls it."""
    target: str
    """Hash of what it makes: two jobs with the same must never run side by side."""
    definition: str
    """Hash of how it makes that."""
    command: str
    inputs: Sequence[str] = ()
    """Files of the catalogue that it reads."""


@dataclass(frozen=True)
class Batch:
    """Jobs that become one task."""

    rule: str
    fields: Mapping[str, Any]
    rows: Sequence[Row]
    key: str = field(default_factory=lambda: uuid4().hex)
    """The same in each repetition of its submission, so that it happens once."""

    def document(self, label: str, is_script: bool) -> dict[str, Any]:
        """Return the task. ``is_script`` if each command is a whole script with an interpreter."""
        prefix, middles, suffix = shared_parts([row.command for row in self.rows])
        pieces = max(1, *(-(-len(middle) // PIECE) for middle in middles))
        names = [f"command_{number}" for number in range(pieces)]
        parameters = [
            {"job": row.name, "target": row.target, "definition": row.definition}
            | {name: middle[at * PIECE : (at + 1) * PIECE] for at, name in enumerate(names)}
            for row, middle in zip(self.rows, middles, strict=True)
        ]
        return {
            **self.fields,
            "name": plain_name(self.rule),
            "labels": {LABEL: label, "rule": self.rule[:LONGEST_NAME]},
            "command": ["sh", "run.sh"],
            "payload_files": {"run.sh": _script(prefix, names, suffix, is_script)},
            "parameters": parameters,
            "scouts": 0,
            "max_attempts": 1,
        }

    def example(self) -> dict[str, Any]:
        """Return a task of one such job, to ask whether any queue can run it."""
        return {**self.fields, "name": plain_name(self.rule), "command": ["true"], "scouts": 0}


def batches(rows: Iterable[tuple[str, Mapping[str, Any], Row]]) -> Iterator[Batch]:
    """Yield batches of the rows of equal rules and fields, in their order, each of a bounded size."""
    groups: dict[tuple[str, str], tuple[Mapping[str, Any], list[Row]]] = {}
    for rule, fields, row in rows:
        same = (rule, json.dumps(fields, sort_keys=True))
        groups.setdefault(same, (fields, []))[1].append(row)
    for (rule, _), (fields, members) in groups.items():
        for part in _parts(members):
            yield Batch(rule, fields, part)


def _parts(rows: Iterable[Row]) -> Iterator[list[Row]]:
    part: list[Row] = []
    size = 0
    for row in rows:
        bytes_of_row = len(row.command.encode()) + 300
        if part and (len(part) == MOST_ROWS or size + bytes_of_row > MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(row)
        size += bytes_of_row
    if part:
        yield part


def shared_parts(commands: Sequence[str]) -> tuple[str, list[str], str]:
    """Return the beginning that all commands share, the middle of each, and the end that they share."""
    prefix = commonprefix(commands)  # noqa: RUF071 - texts, no paths
    rests = [command[len(prefix) :] for command in commands]
    suffix = commonprefix([rest[::-1] for rest in rests])[::-1]  # noqa: RUF071
    return prefix, [rest[: len(rest) - len(suffix)] for rest in rests], suffix


def fits(command: str) -> bool:
    """Return whether a command fits into the parameters of one row."""
    return len(command) <= PIECE * MOST_PIECES


def plain_name(rule: str) -> str:
    """Return a rule's name in the signs that names of tasks have."""
    return (re.sub(r"[^A-Za-z0-9_.-]", "_", rule).lstrip("_.-") or "rule")[:LONGEST_NAME]


def digest(*parts: str) -> str:
    """Return a short hash of texts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def _script(prefix: str, names: Sequence[str], suffix: str, is_script: bool) -> str:
    """Return a shell script that puts a command together, and runs it."""
    middle = " ".join(f'"$PILOTAGE_PARAMETER_{name}"' for name in names)
    run = "chmod +x job.sh\nexec ./job.sh" if is_script else "exec sh job.sh"
    return (
        'export PILOTAGE_STAGED_INPUTS="$PWD/inputs"\n'
        + f"printf %s {quote(prefix)} {middle} {quote(suffix)} > job.sh\nprintf '\\n' >> job.sh\n{run}\n"
    )
