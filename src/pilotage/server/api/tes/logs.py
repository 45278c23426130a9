"""The logs of executors, from what the job's script wrote to its standard output and error."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.server.api.tes.script import NOTE
from pilotage.store import StoredLog

LONGEST_TAIL = 10_000
"""Most characters of an executor's stream that are shown: its end."""

_TIME = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"
_LINE = re.compile(
    rf"^{NOTE} executor (\d{{1,3}}) ended with (\d{{1,3}}), {_TIME} to {_TIME}, "
    r"stdout (\d{1,15})-(\d{1,15}), stderr (\d{1,15})-(\d{1,15})$".encode(),
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class ExecutorEnd:
    """The end of an executor, by its place in the task, and what it wrote."""

    number: int
    exit_code: int
    began: str
    ended: str
    stdout: str
    stderr: str


def executor_ends(streams: Sequence[StoredLog]) -> list[ExecutorEnd]:
    """Return the ends of executors that the kept parts of a job's streams show, in their order.

    Executors can write such lines too. Their parts of streams follow each other, so that no answer is larger
    than the log.
    """
    logs = {log.stream: log for log in streams}
    if "stdout" not in logs:
        return []
    notes = {int(note[1]): note for note in _LINE.finditer(logs["stdout"].data)}
    ends: list[ExecutorEnd] = []
    shown = 0, 0
    for number, note in sorted(notes.items()):
        out, out_end, err, err_end = map(int, note.groups()[4:])
        end = ExecutorEnd(
            number=number,
            exit_code=int(note[2]),
            began=note[3].decode(),
            ended=note[4].decode(),
            stdout=_text(logs["stdout"], max(out, shown[0]), out_end),
            stderr=_text(logs["stderr"], max(err, shown[1]), err_end) if "stderr" in logs else "",
        )
        ends.append(end)
        shown = max(out_end, shown[0]), max(err_end, shown[1])
    return ends


def _text(log: StoredLog, begin: int, end: int) -> str:
    """Return the end of a part of a stream. What was not kept of it is left out."""
    lost = log.size - len(log.data)
    head = log.data[begin : min(end, log.head)] if lost else log.data[begin:end]
    tail = log.data[max(begin - lost, log.head) : max(end - lost, 0)] if lost else b""
    return (head + tail).decode("utf-8", "replace")[-LONGEST_TAIL:]
