"""Hypothetical changes in requests, and the resulting decisions."""

from collections.abc import Callable
from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field

from pilotage.explain.analysis import Explanation, explain
from pilotage.explain.comparison import FieldChange, WhatIf, side_by_side
from pilotage.explain.layout import folded
from pilotage.federation.faults import BadDocument
from pilotage.flow.calls.work.what_if import Changes
from pilotage.model.documents.decision import Choice
from pilotage.server.api.edge.answers import answer, faults_of
from pilotage.server.api.edge.bodies import RequestBody

Values = dict[str, Any]


class Explanations(BaseModel):
    """The analysis of each choice, in order."""

    before: list[Explanation]
    after: list[Explanation]


class WhatIfAnswer(BaseModel):
    """The decisions without and with changes, analysed, and as ``lines`` of text."""

    time: float
    seed: int
    changes: list[FieldChange]
    before: list[Choice]
    after: list[Choice]
    opened: list[str]
    closed: list[str]
    explanations: Explanations
    lines: list[str]


class Hypothesis(RequestBody):
    """Values of fields: of the task, and of queues by name.

    ``memory`` is everything that a job may use, in MB.
    """

    task: Values = Field(default_factory=dict, examples=[{"memory": 12000}])
    queues: dict[str, Values] = Field(default_factory=dict, examples=[{"QUEUE": {"status": "online"}}])

    def answer(self, decide: Callable[[Changes], WhatIf], width: int) -> Response:
        """Answer with the decision under these changes, or with their faults."""
        try:
            comparison = decide(Changes(task=self.task, queues=self.queues))
        except BadDocument as bad:
            return answer({"detail": faults_of(bad)}, 422)
        document = WhatIfAnswer.model_construct(
            time=comparison.time,
            seed=comparison.seed,
            changes=list(comparison.changes),
            before=list(comparison.before),
            after=list(comparison.after),
            opened=list(comparison.opened),
            closed=list(comparison.closed),
            explanations=Explanations.model_construct(
                before=[explain(choice) for choice in comparison.before],
                after=[explain(choice) for choice in comparison.after],
            ),
            lines=folded(side_by_side(comparison, width), width),
        )
        return answer(document)
