"""Ended attempts in the formats of accounting systems: JSON lines, APEL's job records, AUDITOR's records."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Attempt = Mapping[str, Any]

APEL_HEADER = "APEL-individual-job-message: v0.3"
SEPARATOR = "%%"
LONGEST_NAME = 256
"""Most characters of a name in AUDITOR."""

_UNFIT_FOR_AUDITOR = re.compile(r'[/()"<>\\{}]')
_UNFIT_FOR_APEL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+|%(?=%)")


def jsonl(attempts: Iterable[Attempt], instance: str) -> str:
    """Return an attempt a line, with all of its fields."""
    return "".join(f"{json.dumps({'instance': instance, **attempt})}\n" for attempt in attempts)


def apel(attempts: Sequence[Attempt], instance: str) -> str:
    """Return one message of job records; nothing without attempts. Losses after the end are none."""
    records = [_apel_record(attempt, instance) for attempt in attempts if attempt["outcome"] != "lost"]
    return "\n".join([APEL_HEADER, *records, ""]) if records else ""


def _apel_record(attempt: Attempt, instance: str) -> str:
    values: dict[str, object] = {
        "Site": attempt["site"] or "unknown",
        "SubmitHost": instance,
        "MachineName": instance,
        "Queue": attempt["queue"],
        "LocalJobId": f"{attempt['job']}.{attempt['attempt']}",
        "LocalUserId": attempt["person"],
        "GlobalUserName": attempt["person"],
        "VO": attempt["vo"],
        "VOGroup": attempt["group"],
        "WallDuration": round(attempt["seconds"]),
        "CpuDuration": round(attempt["cpu_seconds"]),
        "Processors": attempt["cores"],
        "NodeCount": 1,
        "StartTime": int(attempt["started"]),
        "EndTime": int(attempt["ended"]),
        "InfrastructureDescription": "Pilotage",
        "InfrastructureType": "grid",
        # APEL counts in kB.
        "MemoryReal": round(attempt["max_rss"] * 1000) or "",
        "ServiceLevelType": "hepscore23",
        "ServiceLevel": attempt["core_power"],
    }
    words = {name: _UNFIT_FOR_APEL.sub(" ", str(value)).strip() for name, value in values.items()}
    return "\n".join([*(f"{name}: {word}" for name, word in words.items() if word), SEPARATOR])


def auditor(attempts: Iterable[Attempt], instance: str) -> str:
    """Return a record a line. Losses after the end are none."""
    return "".join(
        f"{json.dumps(_auditor_record(attempt, instance))}\n"
        for attempt in attempts
        if attempt["outcome"] != "lost"
    )


def _auditor_record(attempt: Attempt, instance: str) -> dict[str, Any]:
    power = [{"name": "HEPscore23", "value": attempt["core_power"]}]
    amounts = {
        "GPUs": attempt["gpus"],
        "Memory": round(attempt["memory"]),
        "MaxRSS": round(attempt["max_rss"]),
        "TotalCPU": round(attempt["cpu_seconds"]),
        "Walltime": round(attempt["seconds"]),
    }
    meta = {
        "site_id": attempt["site"] or "unknown",
        "user_id": attempt["person"],
        "group_id": attempt["vo"],
        "subgroup_id": attempt["group"],
        "share": attempt["share"],
        "queue": attempt["queue"],
        "node": attempt["node"],
        "task": str(attempt["task"]),
        "outcome": attempt["outcome"],
        "cause": attempt["cause"],
    }
    return {
        "record_id": _fit(f"pilotage-{instance}-{attempt['job']}-{attempt['attempt']}"),
        "meta": {name: [_fit(value)] for name, value in meta.items() if value.strip()},
        "components": [
            {"name": "Cores", "amount": attempt["cores"], "scores": power},
            *({"name": name, "amount": amount, "scores": []} for name, amount in amounts.items() if amount),
        ],
        "start_time": _moment(attempt["started"]),
        "stop_time": _moment(attempt["ended"]),
    }


def _fit(name: str) -> str:
    """Return a name that AUDITOR accepts."""
    return _UNFIT_FOR_AUDITOR.sub("_", name)[:LONGEST_NAME]


def _moment(time: float) -> str:
    return datetime.fromtimestamp(int(time), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


FORMATS: Mapping[str, Callable[[Sequence[Attempt], str], str]] = {
    "jsonl": jsonl,
    "apel": apel,
    "auditor": auditor,
}
