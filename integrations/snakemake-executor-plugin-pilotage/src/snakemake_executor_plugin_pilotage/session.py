"""One run's conversation with the server: what may fail for a while is asked again."""

import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from snakemake_interface_common.exceptions import WorkflowError

from pilotage.client import (
    Client,
    ClientError,
    NotPilotage,
    NotSignedIn,
    Refused,
    ServerFault,
    TooMany,
    Unreachable,
)

if TYPE_CHECKING:
    from snakemake_interface_executor_plugins.logging import LoggerExecutorInterface

Answer = TypeVar("Answer")

AWAY = 600.0
"""Seconds that a submission waits for a server that is away, or for a new token."""

LONGEST_PAUSE = 10.0


class Session:
    """A client, and whether the server answers it."""

    def __init__(self, url: str | None, home: str | None, logger: "LoggerExecutorInterface") -> None:
        try:
            self.client = Client(url=url, home=home)
        except ValueError as error:
            raise WorkflowError(f"Pilotage: {error}") from error
        self._logger = logger
        self._has_worked = False
        self._silence = ""
        self._planned: set[str] = set()

    def page(self, task: int) -> str:
        """Return the address of a task's page."""
        return f"{self.client.url}/tasks/{task}"

    def persevere(self, call: Callable[[], Answer]) -> Answer:
        """Return what a call returns. If the server is away for a while, or wants a new token, repeat it."""
        until, pause = time.monotonic() + AWAY, 1.0
        while True:
            try:
                answer = call()
            except ClientError as error:
                if not self._may_pass(error) or time.monotonic() > until:
                    raise
                self.report_silence(error)
                time.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)
            else:
                self.report_answer()
                return answer

    def _may_pass(self, error: ClientError) -> bool:
        if not self._has_worked and isinstance(error, (NotSignedIn, Unreachable)):
            # A wrong address or token: waiting does not help.
            return False
        passing = (Unreachable, ServerFault, TooMany, NotSignedIn)
        return isinstance(error, passing) and not isinstance(error, NotPilotage)

    def report_silence(self, error: ClientError) -> None:
        """Log once why the server does not answer."""
        if not self._silence:
            self._silence = str(error)
            self._logger.warning(f"Pilotage: {error}. Jobs go on; Snakemake asks again.")

    def report_answer(self) -> None:
        """Log once that the server answers again."""
        self._has_worked = True
        if self._silence:
            self._silence = ""
            self._logger.info("Pilotage answers again.")

    def queues_of(self, sites: Iterable[str]) -> list[str]:
        """Return the queues of sites. Raises ``WorkflowError`` for a site that has none."""
        places = {queue["site"] for queue in self._queues}
        if strangers := [site for site in sites if site not in places]:
            raise WorkflowError(
                f"pilotage_site: no queue is at {', '.join(strangers)}; sites: {', '.join(sorted(places))}"
            )
        return [queue["name"] for queue in self._queues if queue["site"] in sites]

    @cached_property
    def _queues(self) -> list[Any]:
        return self.persevere(lambda: list(self.client.each(self.client.queues)))

    def check(self, example: dict[str, Any], same: str) -> None:
        """Raise ``Refused`` if no queue can ever run such jobs, with the cheapest change.

        The server is asked once for each text in ``same``.
        """
        if same in self._planned:
            return
        answer = self.persevere(lambda: self.client.plan([example]))
        for task in answer["tasks"]:
            if all(map(is_hopeless, task["choices"])) and task["choices"]:
                raise Refused("\n".join(task["lines"]))
        if answer["refused"]:
            faults = [fault for task in answer["refused"] for fault in task["errors"]]
            raise Refused("; ".join(f"{fault['field']}: {fault['message']}" for fault in faults))
        self._planned.add(same)


def is_hopeless(choice: Any) -> bool:
    """Return whether each queue refuses a job for a reason that only the job's owner can remove."""
    refused = {
        queue for refusal in choice["refusals"] if refusal["mend"] == "user" for queue in refusal["queues"]
    }
    return 0 < int(choice["considered"]) <= len(refused)
