"""Inputs of jobs that may be borrowed, and their storages, cached for consecutive passes."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from math import inf

from pilotage.model.records.work import File, Job, Replica
from pilotage.model.values.durations import is_fresh
from pilotage.store.reader import RecordReader

INPUTS_KNOWN_FOR = 1.0
"""Seconds for which a file's storages are cached. A pilot's actual jobs are always read again."""

_Known = dict[str, tuple[File, tuple[Replica, ...]]]


class KnownInputs:
    """Reads the inputs of jobs for many queues' passes over the same lines.

    It reads everything again after ``INPUTS_KNOWN_FOR`` s. Safe to use from many threads.
    """

    def __init__(self) -> None:
        # Replace it as a whole. Two threads may both read the same inputs: that does no harm.
        self._since: tuple[float, _Known] = -inf, {}

    def of(
        self, reader: RecordReader, jobs: Iterable[Job], time: float
    ) -> tuple[tuple[File, ...], tuple[Replica, ...]]:
        """Return the files that jobs read, and their replicas, at a time in s since 1970; both by name."""
        begun, cache = self._since
        if not is_fresh(begun, time, INPUTS_KNOWN_FOR):
            cache = {}
            self._since = time, cache
        names = {name for job in jobs for name in job.inputs}
        if new := {name for name in names if name not in cache}:
            cache.update(_read(reader, new))
        inputs = [cache[name] for name in sorted(names) if name in cache]
        return tuple(file for file, _ in inputs), tuple(
            chain.from_iterable(replicas for _, replicas in inputs)
        )


def _read(reader: RecordReader, names: Iterable[str]) -> _Known:
    files = reader.files(names)
    replicas: defaultdict[str, list[Replica]] = defaultdict(list)
    for replica in reader.replicas_of(files):
        replicas[replica.file].append(replica)
    return {file.name: (file, tuple(replicas[file.name])) for file in files}
