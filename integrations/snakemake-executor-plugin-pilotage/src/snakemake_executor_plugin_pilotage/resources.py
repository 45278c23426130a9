"""What a rule requests in Snakemake's words, as fields of a Pilotage task."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

from pilotage.client import Refused
from pilotage.client.requested import requested_numbers, requested_queues, requested_texts

LEAST_MEMORY = 500
"""MB for a job at least: Snakemake itself needs 100 to 250 there, whatever its rule needs."""

NUMBERS: Mapping[str, tuple[str, float]] = {
    "mem_mb": ("ram", 1),
    "runtime": ("walltime", 60),
    "disk_mb": ("work_disk", 1),
    "gpu": ("gpus", 1),
    "pilotage_priority": ("priority", 1),
}
"""Resources that are numbers: the field of each, and its factor."""

TEXTS: Mapping[str, str] = {
    "pilotage_share": "share",
    "pilotage_container": "container_name",
    "pilotage_conda": "conda",
}
"""Resources that are texts, and the field of each."""


def task_fields(
    rule: str,
    threads: int,
    resources: Mapping[str, Any],
    queues_of: Callable[[Iterable[str]], list[str]],
    *,
    queue: str | None = None,
    site: str | None = None,
    conda: str | None = None,
) -> dict[str, Any]:
    """Return the fields of a task for jobs of a rule. Raises ``WorkflowError`` for a bad resource.

    ``queues_of`` returns the queues of sites. ``queue``, ``site`` and ``conda`` count for rules that name
    none.
    """
    try:
        fields = requested_numbers(resources, NUMBERS) | requested_texts(resources, TEXTS)
        queues = requested_queues(
            resources.get("pilotage_queue") or queue, resources.get("pilotage_site") or site, queues_of
        )
    except Refused as error:
        raise WorkflowError(f"rule {rule}: {error}") from None
    usual = {"cores": max(1, threads)} | ({"conda": conda} if conda else {})
    if "ram" in fields:
        fields |= {"ram": max(fields["ram"], LEAST_MEMORY), "ram_unit": "MB"}
    return usual | fields | queues
