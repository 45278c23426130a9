"""Changes that are only thought of, as requests name them."""

from collections.abc import Callable
from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field

from pilotage.federation.faults import BadDocument
from pilotage.flow.calls.what_if import Changes, WhatIf

from .answers import answer, faults_of

Values = dict[str, Any]


class Hypothesis(BaseModel, extra="forbid"):
    """Values of fields: of the task, and of queues by name. ``memory`` is all that a job may use, in MB."""

    task: Values = Field(default_factory=dict, examples=[{"memory": 12000}])
    queues: dict[str, Values] = Field(default_factory=dict, examples=[{"QUEUE": {"status": "online"}}])

    def answer(self, decide: Callable[[Changes], WhatIf]) -> Response:
        """What is decided with these changes, or what is wrong with them."""
        try:
            return answer(decide(Changes(task=self.task, queues=self.queues)))
        except BadDocument as bad:
            return answer({"detail": faults_of(bad)}, 422)
