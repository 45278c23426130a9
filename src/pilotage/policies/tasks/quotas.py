"""Quotas: limits on the unfinished tasks, jobs and input files of a user and a VO."""

from dataclasses import dataclass, field

from pilotage.model.documents.decision import WorkLimit
from pilotage.model.records.quotas import QuotaConstants
from pilotage.model.records.spec import LiveWork, TaskSpec
from pilotage.model.values.identity import Identity


@dataclass(slots=True)
class Quota:
    """Unfinished work of an owner and its VO, and its limits. ``take`` counts one submission's tasks."""

    constants: QuotaConstants
    owner: Identity
    user: LiveWork = field(default_factory=LiveWork)
    vo: LiveWork = field(default_factory=LiveWork)

    def __post_init__(self) -> None:
        self.constants = self.constants.for_owner(self.owner)

    def take(self, spec: TaskSpec) -> list[tuple[str, str]]:
        """Count a task, or refuse it: return a field and a sentence for each quota that it would exceed."""
        user, vo = self.user.with_task(spec), self.vo.with_task(spec)
        of_user = f"user {self.owner.name}"
        of_vo = f"VO {self.owner.vo}" if self.owner.vo else "those without a VO"
        faults = [
            (
                name,
                f"{holder} would have {have} {unit} that have not ended, above the quota of {quota}; "
                "wait until some end, cancel some, or ask an operator for more",
            )
            for holder, live, limit in (
                (of_user, user, self.constants.of_user),
                (of_vo, vo, self.constants.of_vo),
            )
            for name, unit, have, quota in (
                ("name", "tasks", live.tasks, limit.tasks),
                ("jobs", "jobs", live.jobs, limit.jobs),
                ("inputs", "input files", live.files, limit.files),
            )
            if have > quota
        ]
        # Do not count a refused task, so that the next one of the submission may still fit.
        if not faults:
            self.user, self.vo = user, vo
        return faults

    @property
    def limits(self) -> tuple[WorkLimit, ...]:
        """Return the limits for the commit to check, because concurrent requests do not see each other's
        tasks."""
        vo = self.owner.vo
        return (
            WorkLimit(vo=vo, owner=self.owner.name, most=self.constants.of_user),
            WorkLimit(vo=vo, owner=None, most=self.constants.of_vo),
        )
