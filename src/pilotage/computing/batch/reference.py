"""References to pilots in a batch system: a job's number alone may mean another's job one day."""

import re
from typing import NamedTuple

_JOB = re.compile(r"\d[\w.\[\]-]*")


class Reference(NamedTuple):
    """A job of a batch system, the name under which it was submitted, and the pilot.

    As text, the pilot is left out where it is the name, which it is not in an array.
    """

    job: str
    name: str
    pilot: str

    @classmethod
    def parse(cls, text: str) -> "Reference | None":
        """Parse what str() gave; None for any other text."""
        parts = text.split("/")
        if len(parts) not in (2, 3) or not _JOB.fullmatch(parts[0]) or not all(parts):
            return None
        return cls(parts[0], parts[1], parts[-1])

    def __str__(self) -> str:
        return "/".join(self if self.name != self.pilot else self[:2])
