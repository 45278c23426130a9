"""What a rule requests in Snakemake's words, as fields of a Pilotage task."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError

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
    fields: dict[str, Any] = {"cores": max(1, threads)} | ({"conda": conda} if conda else {})
    for name, (field, factor) in NUMBERS.items():
        if resources.get(name) is not None:
            fields[field] = _number(rule, name, resources[name]) * factor
    for name, field in TEXTS.items():
        if resources.get(name):
            fields[field] = str(resources[name])
    if "ram" in fields:
        fields |= {"ram": max(fields["ram"], LEAST_MEMORY), "ram_unit": "MB"}
    for field in ("gpus", "priority"):
        if field in fields:
            fields[field] = int(fields[field])
    queues = _names(resources.get("pilotage_queue") or queue)
    if sites := _names(resources.get("pilotage_site") or site):
        of_sites = queues_of(sites)
        queues = [name for name in queues if name in of_sites] if queues else of_sites
        if not queues:
            raise WorkflowError(f"rule {rule}: pilotage_queue names no queue of {', '.join(sites)}")
    return fields | ({"queues": queues} if queues else {})


def _number(rule: str, name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise WorkflowError(f"rule {rule}: the resource {name} is {value!r}; give a number") from None
    if not 0 <= number < 1e15:
        raise WorkflowError(f"rule {rule}: the resource {name} is {value!r}; give a number from 0 on")
    return number


def _names(value: Any) -> list[str]:
    """Return the names in a text, which commas or blanks separate."""
    return str(value or "").replace(",", " ").split()
