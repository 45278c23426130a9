"""Task fields behind each check's need, easiest to change first."""

from pilotage.model.documents.decision import Asked
from pilotage.model.records.work import Measured
from pilotage.model.rules.job_order import HIGH_PRIORITY
from pilotage.policies.brokerage.engine.check import MEGABYTE
from pilotage.policies.brokerage.engine.job_groups import Group
from pilotage.policies.brokerage.engine.spec_table import LEAST_OUTPUT

_NOTHING = Measured(finished=0)
_BELOW = 1 + 1e-9
"""Factor on a walltime: it must be below the limit, so the advised value is a little less than the limit."""


def nucleus(group: Group) -> tuple[Asked, ...]:
    """Advise no scouts, or a priority below 800. For a scout of high priority no single change helps."""
    if group.kind == "scout":
        return () if group.priority >= HIGH_PRIORITY else no_scouts(group)
    return (Asked(field="priority", value=group.priority, instead=HIGH_PRIORITY - 1),)


def no_scouts(group: Group) -> tuple[Asked, ...]:
    """Advise no scouts, if the job is one: other jobs of the task lack this need."""
    return (Asked(field="scouts", value=group.spec.scouts, instead=0),) if group.kind == "scout" else ()


def cores(group: Group) -> tuple[Asked, ...]:
    """Advise fewer cores; nothing for merge jobs, which always have one core."""
    return () if group.kind == "merge" else (Asked(field="cores", value=group.spec.cores, each=1.0),)


def most_cores(group: Group) -> tuple[Asked, ...]:
    """Advise a higher ``max_cores``."""
    return (Asked(field="max_cores", value=group.spec.max_cores, each=1.0),)


def gpus(group: Group) -> tuple[Asked, ...]:
    """Advise fewer GPUs; nothing if only the architecture names a GPU, because that has no number."""
    return (Asked(field="gpus", value=group.spec.gpus, each=1.0),) if group.spec.gpus else ()


def memory(group: Group) -> tuple[Asked, ...]:
    """Advise another memory; nothing if the memory was measured, because that replaces the request."""
    if _measured(group).memory is not None:
        return ()
    spec, factor = group.spec, float(group.policy.constants.memory_compensation)
    name = "merge.ram" if group.kind == "merge" and group.task.spec.merge else "ram"
    base = 0.0 if spec.ram_unit == "MB" else float(spec.base_ram)
    by_queue = spec.cores == 0 and spec.ram_unit != "MB"
    each = None if by_queue else float(spec.ram_units)
    ram = Asked(field=name, value=float(spec.ram), fixed=base, each=each, factor=factor)
    if base == 0 or by_queue:
        return (ram,)
    return (
        ram,
        Asked(field="base_ram", value=base, fixed=spec.ram * spec.ram_units, each=1.0, factor=factor),
    )


def work_directory(group: Group) -> tuple[Asked, ...]:
    """Advise less output or scratch of a job. The output counts as at least 0.5 GB."""
    spec, measured = group.spec, _measured(group)
    size = sum(total for _, _, total in group.inputs) / MEGABYTE
    output, events = spec.out_disk * spec.least_events, spec.work_disk + size
    other_bytes = size + group.output_size
    fields = (
        [] if measured.work_disk is not None else [_field("work_disk", float(spec.work_disk), other_bytes)]
    )
    if output > LEAST_OUTPUT and group.kind != "merge":
        fields.append(_field(*_events(group), events, LEAST_OUTPUT))
        if measured.out_disk is None:
            fields.append(_field("out_disk", float(spec.out_disk), events, LEAST_OUTPUT))
    return tuple(item for item in fields if item.value)


def walltime(group: Group) -> tuple[Asked, ...]:
    """Advise another walltime. If it follows from CPU time, advise fewer events of a job first, then
    estimates."""
    spec, measured = group.spec, _measured(group)
    if group.kind == "merge" and group.task.spec.merge:
        return (Asked(field="merge.walltime", value=float(spec.walltime), each=_BELOW),)
    if spec.cpu_time == 0:
        is_measured = measured.walltime is not None
        return () if is_measured else (Asked(field="walltime", value=float(spec.walltime), each=_BELOW),)
    fields = [_field(*_events(group), spec.base_time)]
    if measured.cpu_time is None:
        fields.append(_field("cpu_time", float(spec.cpu_time), spec.base_time))
    return tuple(fields)


def most_walltime(group: Group) -> tuple[Asked, ...]:
    """Advise the same for the most events that a job may have (B21)."""
    fields = walltime(group)
    if fields and fields[0].field == "min_events":
        return (_field("events_per_job", group.spec.events_per_job, group.spec.base_time), *fields[1:])
    return fields


def _events(group: Group) -> tuple[str, int]:
    spec = group.spec
    return ("min_events", spec.min_events) if spec.min_events else ("events_per_job", spec.events_per_job)


def _field(field: str, value: float, fixed: float, least: float = 0.0) -> Asked:
    return Asked(field=field, value=value, fixed=float(fixed), least=least)


def _measured(group: Group) -> Measured:
    measured = None if group.kind == "merge" else group.task.measured
    return measured or _NOTHING
