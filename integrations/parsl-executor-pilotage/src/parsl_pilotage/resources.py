"""The resource specification of an app in Parsl's words, as fields of a Pilotage task."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from parsl.executors.errors import InvalidResourceSpecification

from pilotage.client import Refused
from pilotage.client.requested import requested_numbers, requested_queues, requested_texts

NUMBERS: Mapping[str, tuple[str, float]] = {
    "cores": ("cores", 1),
    "memory": ("ram", 1),
    "disk": ("work_disk", 1),
    "gpus": ("gpus", 1),
    "running_time": ("walltime", 1),
    "running_time_min": ("walltime", 1),
    "running_time_max": ("walltime", 1),
    "priority": ("priority", 1),
}
"""Numbers of a specification, in MB and s: the field of each, and its factor."""

TEXTS: Mapping[str, str] = {"share": "share", "container_name": "container_name", "conda": "conda"}
"""Texts of a specification, and the field of each."""

NAMES = frozenset((*NUMBERS, *TEXTS, "queue", "site"))

START = 120
"""Seconds that a job with an app's ``walltime`` has in addition: Python and Parsl start in it."""


def task_fields(
    request: Mapping[str, Any], app_walltime: float | None, queues_of: Callable[[Iterable[str]], list[str]]
) -> dict[str, Any]:
    """Return the fields of a task for an app. Raises ``InvalidResourceSpecification``.

    ``queues_of`` returns the queues of sites.
    """
    if strangers := set(request) - NAMES:
        raise InvalidResourceSpecification(strangers, f"Pilotage knows {', '.join(sorted(NAMES))}.")
    try:
        fields = requested_numbers(request, NUMBERS) | requested_texts(request, TEXTS)
        queues = requested_queues(request.get("queue"), request.get("site"), queues_of)
    except Refused as error:
        raise InvalidResourceSpecification(set(request), str(error)) from None
    if "ram" in fields:
        fields |= {"ram_unit": "MB"}
    if app_walltime and "walltime" not in fields:
        fields["walltime"] = app_walltime + START
    return fields | queues
