"""Inputs of jobs that may be borrowed, and where they lie: looks that follow each other read them once."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from math import inf

from pilotage.model.records.work import File, Job, Replica
from pilotage.model.values.freshness import is_fresh
from pilotage.store.tables.reader import RecordReader

INPUTS_KNOWN_FOR = 1.0
"""Seconds for which it holds where a file lies; what a pilot is given is read anew in any case."""

_Known = dict[str, tuple[File, tuple[Replica, ...]]]


class KnownInputs:
    """Reads the inputs of jobs for looks by many queues, which are of the same lines.

    All is read anew once it is :data:`INPUTS_KNOWN_FOR` s old. Safe to use from many threads.
    """

    def __init__(self) -> None:
        # Replaced as a whole; of two threads that come at once both read, and add the same.
        self._since: tuple[float, _Known] = -inf, {}

    def of(
        self, reader: RecordReader, found: Iterable[Job], time: float
    ) -> tuple[tuple[File, ...], tuple[Replica, ...]]:
        """The files that jobs read, and their replicas, at a time in s since 1970; both by name."""
        begun, known = self._since
        if not is_fresh(begun, time, INPUTS_KNOWN_FOR):
            known = {}
            self._since = time, known
        names = {name for job in found for name in job.inputs}
        if new := {name for name in names if name not in known}:
            known.update(_read(reader, new))
        inputs = [known[name] for name in sorted(names) if name in known]
        return tuple(file for file, _ in inputs), tuple(chain.from_iterable(held for _, held in inputs))


def _read(reader: RecordReader, names: Iterable[str]) -> _Known:
    files = reader.files(names)
    held: defaultdict[str, list[Replica]] = defaultdict(list)
    for replica in reader.replicas_of(files):
        held[replica.file].append(replica)
    return {file.name: (file, tuple(held[file.name])) for file in files}
