"""What Pilotage measures for monitoring: sums and histograms, each with the labels that it is kept by."""

from dataclasses import dataclass

SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in s of commits, passes and requests."""

LONG = (10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0)
"""Upper bounds in s of waits and runs of jobs."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A sum, or with ``bounds`` a histogram. ``name`` lacks the prefix, and the unit is its last word."""

    name: str
    labels: tuple[str, ...]
    text: str
    bounds: tuple[float, ...] = ()


ATTEMPTS = Measurement("attempts", ("queue", "share", "state"), "Attempts of jobs that ended, by outcome.")
JOB_WAITS = Measurement(
    "job_wait_seconds", ("share",), "Seconds from a job's creation to its first payload.", LONG
)
JOB_RUNS = Measurement("job_run_seconds", ("queue", "state"), "Seconds that payloads ran, by outcome.", LONG)
ENDED_TRANSFERS = Measurement(
    "transfers_ended", ("source", "destination", "state"), "Transfers that ended, or were tried again."
)
TRANSFERRED_BYTES = Measurement("transferred_bytes", ("source", "destination"), "Bytes brought by transfers.")
ENDED_PILOTS = Measurement("pilots_ended", ("queue", "state"), "Pilots that ended.")
EMPTY_PILOTS = Measurement("pilots_empty", ("queue",), "Pilots that ended and never had a job.")
COMMITS = Measurement("commit_seconds", (), "Seconds that commits took, and waited for others.", SHORT)
STORE_RETRIES = Measurement("store_retries", ("state",), "Transactions tried again, by what hindered them.")
PASSES = Measurement("loop_pass_seconds", ("loop",), "Seconds that passes of loops took.", SHORT)
LOOP_LAGS = Measurement(
    "loop_lag_seconds", ("loop",), "Seconds from the news that woke a loop to its next pass.", SHORT
)
FAILED_PASSES = Measurement("loop_passes_failed", ("loop",), "Passes of loops that failed.")
REQUESTS = Measurement("requests", ("method", "route", "status"), "Answered requests.")
REQUEST_SECONDS = Measurement("request_seconds", ("method", "route"), "Seconds until answers began.", SHORT)

_OF_USE = ("queue", "share")
USED_CORE_SECONDS = Measurement("used_core_seconds", _OF_USE, "Seconds that ended attempts ran, times cores.")
USED_HS23_SECONDS = Measurement("used_hs23_seconds", _OF_USE, "The same, times the HS23 of each core.")
USED_GPU_SECONDS = Measurement("used_gpu_seconds", _OF_USE, "Seconds that ended attempts ran, times GPUs.")
USED_CPU_SECONDS = Measurement("used_cpu_seconds", _OF_USE, "CPU seconds of ended attempts.")
LOST_CORE_SECONDS = Measurement(
    "lost_core_seconds", ("queue", "cause"), "Core seconds of attempts that did not end well, by cause."
)
READ_BYTES = Measurement("read_bytes", _OF_USE, "Bytes of inputs of ended attempts.")
WRITTEN_BYTES = Measurement("written_bytes", _OF_USE, "Bytes of outputs of ended attempts.")

FAILED_ATTEMPTS = Measurement(
    "failed_attempts",
    ("day", "task", "queue", "error", "example"),
    "Attempts of jobs that failed, by day and error.",
)
"""No time series: errors have too many values. The store adds them up by day, person, queue and error."""

KEPT_LOGS = Measurement("kept_log_bytes", ("vo", "owner"), "Bytes of logs that were kept.")
"""No time series: people are too many. The store adds them up in a table of its own."""

MEASURES = {
    measure.name: measure
    for measure in (
        *(ATTEMPTS, JOB_WAITS, JOB_RUNS, ENDED_TRANSFERS, TRANSFERRED_BYTES, ENDED_PILOTS, EMPTY_PILOTS),
        *(USED_CORE_SECONDS, USED_HS23_SECONDS, USED_GPU_SECONDS, USED_CPU_SECONDS, LOST_CORE_SECONDS),
        *(READ_BYTES, WRITTEN_BYTES),
        *(COMMITS, STORE_RETRIES, PASSES, LOOP_LAGS, FAILED_PASSES, REQUESTS, REQUEST_SECONDS),
    )
}
"""All that monitoring reads, by name."""

LAST_PASS = "loop_last_pass"
"""The name under which the store keeps when each loop last ended a pass."""
