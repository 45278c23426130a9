"""References to pilots in a batch system.

A number alone is not enough, because it may be reused for another job.
"""

import re
from typing import NamedTuple

_JOB = re.compile(r"\d[\w.\[\]-]*")


class Reference(NamedTuple):
    """A job of a batch system, the name under which it was submitted, and its pilot.

    The text form leaves out the pilot if it equals the name. In an array it does not.
    """

    job: str
    name: str
    pilot: str

    @classmethod
    def parse(cls, text: str) -> "Reference | None":
        """Parse the text form. Return None for any other text."""
        parts = text.split("/")
        if len(parts) not in (2, 3) or not _JOB.fullmatch(parts[0]) or not all(parts):
            return None
        return cls(parts[0], parts[1], parts[-1])

    def __str__(self) -> str:
        return "/".join(self if self.name != self.pilot else self[:2])
