"""Common requirements of jobs, which define a task queue, and their text form (P1)."""

import json
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2

from pilotage.model.records.spec import DEFAULT_SHARE, TaskSpec
from pilotage.model.values.identity import Identity
from pilotage.model.values.types import DESCRIBED

TIME_SEGMENTS = (600, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 1080000)
"""Times round up to one of these, in s, so that similar jobs share a task queue (P1)."""

CPU_SEGMENTS = tuple(10 * segment for segment in TIME_SEGMENTS)
"""Work rounds up to one of these, in HS23 s: the same times on a core of 10 HS23 (P1)."""

LARGEST_WORK = 1e30
"""Larger work or time counts as this."""

KNOWN_TEXTS = 4096
"""Most cached texts of requirements: matches read the same ones again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """Requirements that the jobs of one task queue share (P1)."""

    __pydantic_config__ = DESCRIBED

    vo: str
    """VO of the owner."""
    group: str
    """Group of the owner."""
    owner: str
    """Name of the owner."""
    cores: int
    """Cores of a job."""
    memory: float
    """MB of a job."""
    cpu_time: float
    """Work of a job in HS23 s, rounded up to a segment."""
    private: bool = False
    """Whether only the owner's pilots run them (P7)."""
    gpus: int = 0
    """GPUs of a job."""
    container: bool = False
    """Whether a job runs in a container, which not every node has."""
    walltime: float = 0
    """s that a job takes on any core, in addition or instead, rounded up to a segment."""
    force_generic: bool = False
    """Whether all pilots submitted for them are generic (P7)."""
    submit_pools: tuple[str, ...] = ()
    """Submit pools for their pilots; none: the default ones (P5)."""
    share: str = DEFAULT_SHARE
    """Global share of the jobs. It decides first whose turn it is at a pilot (P13)."""
    secrets: bool = False
    """Whether a job gets secrets of its owner, which only servers with their key give to pilots."""

    @property
    def identity(self) -> Identity:
        """Return the owner."""
        return Identity(name=self.owner, vo=self.vo, group=self.group)

    @classmethod
    def of(cls, spec: TaskSpec, owner: Identity) -> "Requirements":
        """Return the requirements of a task's jobs. A given walltime counts in place of the work."""
        work = 0.0 if spec.walltime else spec.cpu_time * spec.events_per_job / spec.cpu_efficiency
        seconds = spec.walltime or spec.base_time
        return cls(
            vo=owner.vo,
            group=owner.group,
            owner=owner.name,
            cores=max(1, spec.cores),
            memory=spec.memory,
            cpu_time=0.0 if seconds and not work else _rounded_up(work, CPU_SEGMENTS),
            private=spec.private_pilots,
            gpus=spec.gpus_used,
            container=bool(spec.container_name),
            walltime=_rounded_up(seconds, TIME_SEGMENTS) if seconds else 0.0,
            force_generic=spec.force_generic,
            submit_pools=tuple(sorted(set(spec.submit_pools))),
            share=spec.share,
            secrets=bool(spec.secrets),
        )

    def seconds(self, core_power: float) -> float:
        """Return the walltime of a job in s, on cores with that many HS23 each."""
        return self.walltime + self.cpu_time / (core_power * max(1, self.cores))

    @property
    def text(self) -> str:
        """Return a text that names a task queue within a site's queue.

        Equal requirements have equal texts.
        """
        # A whole number and the same float are equal, and have one text.
        memory, work, seconds = map(float, (self.memory, self.cpu_time, self.walltime))
        values: list[object] = [self.vo, self.group, self.owner, self.cores, memory, work]
        values += [self.private, seconds]
        special = {name: value for name, usual in _SPECIAL.items() if (value := getattr(self, name)) != usual}
        # Leave it out if there is none, so that texts in older stores mean the same task queues.
        values += [special] if special else []
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    @lru_cache(maxsize=KNOWN_TEXTS)
    def from_text(cls, text: str) -> "Requirements":
        """Parse the ``text``. In older stores, the value for work is a walltime."""
        values = json.loads(text)
        special = values.pop() if isinstance(values[-1], dict) else {}
        vo, group, owner, cores, memory, cpu_time, private, *walltime = values
        return cls(
            vo=vo,
            group=group,
            owner=owner,
            cores=cores,
            memory=memory,
            cpu_time=cpu_time if walltime else 0.0,
            private=private,
            walltime=walltime[0] if walltime else cpu_time,
            **special | {"submit_pools": tuple(special.get("submit_pools", ()))},
        )


_SPECIAL = {
    "gpus": 0,
    "container": False,
    "force_generic": False,
    "submit_pools": (),
    "share": DEFAULT_SHARE,
    "secrets": False,
}
"""Rarely used requirements with their default. Texts leave out defaults."""


def _rounded_up(value: float, segments: tuple[int, ...]) -> float:
    """Return the first segment not below the value. Beyond the last one, keep doubling."""
    for segment in segments:
        if value <= segment:
            return float(segment)
    # Compute the power of two directly: a loop would be slow for huge values.
    power = ceil(log2(min(value, LARGEST_WORK) / segments[-1]))
    rounded = segments[-1] * 2.0**power
    return rounded if rounded >= min(value, LARGEST_WORK) else 2 * rounded
