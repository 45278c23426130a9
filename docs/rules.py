"""The published rules in our own words: the modules of each, our interpretation, and its defaults.

Texts as data for the page of conformance (``generate.py``); a test compares them with code and tests.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module, util
from pathlib import Path
from typing import Any, NamedTuple

from pilotage.model.records.federation import Federation

CHECKS = "policies.brokerage.production.checks"
PRODUCTION = "policies.brokerage.production"
ENGINE = "policies.brokerage.engine"
MATCHMAKING = "policies.brokerage.matchmaking"
TESTS = Path(__file__).parents[1] / "tests"
LAST_B, LAST_D, LAST_P, LAST_M = 38, 11, 13, 8


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``where`` names modules below ``pilotage``; none means that no code implements it yet.

    ``defaults`` are constants: ``brokerage.pending_time`` of a federation, or ``module:NAME`` of the code.
    """

    number: str
    text: str
    where: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    settled: str = ""


class Carrier(NamedTuple):
    """A test function that carries a rule's number, by its file below ``tests/``."""

    file: str
    name: str


CONSTANTS: dict[str, Any] = {
    field.name: field.default_factory for field in fields(Federation) if is_dataclass(field.default_factory)
}
"""The parts of a federation that hold constants, by name."""


def values(rule: Rule) -> Iterator[tuple[str, object]]:
    """The rule's constants by name, with their values in the code."""
    for name in rule.defaults:
        module, _, constant = name.partition(":")
        if constant:
            yield constant, getattr(import_module(f"pilotage.{module}"), constant)
        else:
            part, _, field = name.partition(".")
            yield field, getattr(CONSTANTS[part](), field)


def source(module: str) -> str:
    """A module's text. Raises LookupError where there is none of that name."""
    found = util.find_spec(f"pilotage.{module}")
    if found is None or found.origin is None:
        raise LookupError(f"there is no module pilotage.{module}")
    return Path(found.origin).read_text()


def numbers_in(text: str) -> set[str]:
    """The rules that a text names: ``B30 to B36`` and ``B30-B36`` are all between."""
    found = set(re.findall(r"\b[BDMPT]\d+\b", text))
    for letter, first, last in re.findall(r"\b([BDMP])(\d+)(?: to |-)(?:[BDMP])(\d+)\b", text):
        found |= {f"{letter}{number}" for number in range(int(first), int(last) + 1)}
    found |= {"T"} if re.search(r"\brules? T\b", text) else set()
    return found | ({"T fast"} if "fast rebrokerage" in text.lower() else set())


@cache
def tests() -> Mapping[str, list[Carrier]]:
    """By rule the test functions with its number in their name or docstring; for T in the module's."""
    found: dict[str, list[Carrier]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        timeouts = "T" in numbers_in(ast.get_docstring(tree) or "")
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                carried = {number.upper() for number in re.findall(r"_([bdmp]\d+)(?=_|$)", node.name)}
                carried |= numbers_in(node.name.replace("_", " ")) & {"T fast"}
                carried |= numbers_in(ast.get_docstring(node) or "") | ({"T"} if timeouts else set())
                for number in carried:
                    found[number].append(Carrier(str(path.relative_to(TESTS)), node.name))
    return found


RULES: tuple[Rule, ...] = (
    Rule(
        "B1",
        'All queues are considered, except those with "test" in the name, in any case.',
        (f"{CHECKS}.status",),
        settled="A test queue that the task names is considered.",
    ),
    Rule(
        "B2",
        "If the task names queues, only these are considered; a unified queue means its pseudo-queues.",
        (
            f"{CHECKS}.status",
            f"{ENGINE}.guards",
            f"{ENGINE}.task_columns",
            "model.records.unified_queues",
            "policies.pilots.pseudo_queues",
        ),
        settled=(
            "A named queue passes every check but B4; `explain` shows where B4 would have refused. A "
            "pseudo-queue also has its unified queue's conditions, and shares its limits. Pilots of a "
            "unified queue take jobs of its pseudo-queues."
        ),
    ),
    Rule(
        "B3",
        "Merge jobs go to the queues that have their input, until they have been skipped for 24 h.",
        (f"{CHECKS}.status", f"{ENGINE}.job_groups"),
        (f"{ENGINE}.job_groups:SKIPPED_AFTER",),
        "Most bytes decide, then most files. The 24 h begin with the first refusal, also by B36; "
        "offline and test queues of that storage are skipped too.",
    ),
    Rule(
        "B4",
        "The queue is online, unless named.",
        (f"{CHECKS}.status", f"{ENGINE}.guards"),
        settled="Standby is online.",
    ),
    Rule(
        "B5",
        "The link from the queue's storage to the nucleus is not blocked.",
        (f"{CHECKS}.network",),
        settled="Closeness -1 is blocked.",
    ),
    Rule(
        "B6",
        "No more files than the cap wait on the link from the queue's storage to the nucleus.",
        (f"{CHECKS}.network",),
        ("brokerage.nqueued_sat_cap",),
        "Queues of the nucleus pass.",
    ),
    Rule(
        "B7",
        "No more files of outputs than the cap are on their way to the nucleus from elsewhere.",
        (f"{CHECKS}.network",),
        ("brokerage.nqueued_nuc_cap_for_jobs",),
        "Queues of the nucleus pass.",
    ),
    Rule(
        "B8",
        "Jobs of priority 800 and above, and scouts, go to queues of the nucleus only.",
        (f"{CHECKS}.nucleus", f"{PRODUCTION}.waivers", f"{PRODUCTION}.candidates"),
        ("model.rules.job_order:HIGH_PRIORITY", "brokerage.high_priority"),
        "By the site of the queue's storage; not to opportunistic queues (`pledged_cpu: -1`). With "
        "`high_priority: prefer` the nucleus weighs 4 times as much, 100 times for scouts, and other sites "
        "take them too; so it is where no queue of the nucleus could ever take the job.",
    ),
    Rule(
        "B9",
        (
            "For priority 800, scouts, merge jobs and jobs with a later merge: a job started in the last "
            "two hours, or none waits."
        ),
        (f"{CHECKS}.status",),
        (f"{CHECKS}.status:INACTIVE_AFTER",),
        (
            "A queue that never started a job counts as not started; the activated jobs must have waited as "
            "long."
        ),
    ),
    Rule(
        "B10",
        "The queue's fair-share policy gives the work more than 0 %.",
        (f"{CHECKS}.admission", "model.values.fairshare"),
        settled=(
            "The first entry that matches decides; without one, the remainder of 100 %. Merge jobs skip "
            "entries about the priority. Faults are reported when the file is read."
        ),
    ),
    Rule(
        "B11",
        "I/O-intensive work moves fewer bytes and fewer files to the queue than the cut-offs.",
        (
            f"{CHECKS}.data_movement",
            f"{ENGINE}.job_groups",
            f"{PRODUCTION}.waivers",
            f"{PRODUCTION}.input_moves",
        ),
        (
            "brokerage.io_intensity_cutoff",
            "brokerage.size_cutoff_to_move_input",
            "brokerage.num_cutoff_to_move_input",
            "brokerage.input_moves",
        ),
        (
            "Over all jobs brokered together, each file once; merge jobs are exempt. Waived if no queue is "
            "left. With `input_moves: sooner` also waived if the remaining queues are full (B36), and for "
            "queues to which all input moves, at the links' measured throughput, before the last job would "
            "start. Simulated: in `data-heavy`, five seeds, `sooner` takes 0.87 of the task time (0.80 to "
            "0.96), for 1.9 times the bytes moved (1.1 to 3.2). The other six scenarios have no "
            "I/O-intensive work. In four drawn federations with such work it changed nothing."
        ),
    ),
    Rule(
        "B12",
        (
            "If the mean disk I/O of a queue's running jobs is above its limit, tasks with more disk I/O "
            "than the limit are refused."
        ),
        (
            f"{CHECKS}.data_movement",
            "agent.payload.disk_rate",
            "policies.pilots.reports",
            "store.worlds.broker_facts",
        ),
        ("brokerage.max_diskio_default",),
        (
            "Per core. No limit by default; a queue that reports nothing refuses nothing. Pilots report "
            "each job's rate after a minute, then at most every five minutes if it changed. The mean covers "
            "the latest rates of running jobs; without running jobs it is 0."
        ),
    ),
    Rule(
        "B13",
        (
            "The cores match: one core on queues of one, several on queues with as many; `max_cores` is the "
            "limit."
        ),
        (f"{CHECKS}.size",),
        settled="0 cores, of task or queue, match any number.",
    ),
    Rule(
        "B14",
        "The queue publishes the software, container and hardware that the task asks for.",
        (
            *(f"{CHECKS}.admission", f"{CHECKS}.size", f"{ENGINE}.offers", f"{ENGINE}.local_checks"),
            "model.circuit_breakers.empty_pilots",
        ),
        settled=(
            "Software is not checked if `releases` has `ANY`, the default; hardware is checked if it is "
            "published. A platform asks for its processor, a base platform for containers. A task's `gpus` "
            "are within the queue's; an architecture that names a GPU asks for one. A queue is closed to "
            "jobs that need containers or GPUs while its circuit breaker of P12 is open: all its nodes that "
            "pilots examined since the last good one lack them. Jobs that wait there move to other queues."
        ),
    ),
    Rule(
        "B15",
        "The expected memory, 0.9 of the request, is within the queue's limits.",
        (f"{CHECKS}.size",),
        ("brokerage.memory_compensation",),
        (
            "`ram` is per core used there, unless `ram_unit` is MB: then without base. A limit of 0 means "
            "none."
        ),
    ),
    Rule(
        "B16",
        "A task that only reads directly goes to queues that support this.",
        (f"{CHECKS}.data_movement",),
    ),
    Rule(
        "B17",
        "Copied input, output (500 MB at least) and scratch fit the cores' part of the work directory.",
        (f"{CHECKS}.size", f"{ENGINE}.spec_table"),
        (f"{ENGINE}.spec_table:LEAST_OUTPUT",),
        (
            "In MB, for the fewest events that a job may have. Input that the queue reads directly does not "
            "count, unless the task has `copy_inputs`. The cores of a unified queue share the directory "
            "among its pseudo-queues. A merge job's output is the sum of its inputs."
        ),
    ),
    Rule(
        "B18",
        "More than the least space is free at the queue's storage.",
        (
            f"{CHECKS}.data_movement",
            "model.records.storage_spaces",
            "policies.staging.spaces",
            "flow.outside.spaces",
        ),
        (
            "brokerage.storage_min_free",
            "model.records.storage_spaces:LEAST_FREE",
            "brokerage.storage_space_period",
        ),
        (
            "In GB. Pilotage asks storages in each period; an answer counts for three periods. Without an "
            "answer, the federation's number counts, and is shown as *declared*: then change the file. A "
            "storage's own `storage_min_free` overrides the federation's."
        ),
    ),
    Rule(
        "B19",
        "No storage is blacklisted that a job must read or write there.",
        (f"{CHECKS}.data_movement", f"{ENGINE}.reach", "model.rules.sources"),
        settled=(
            "Separate for reading and writing, local and wide area. If an input can be brought from no "
            "storage, the check always refuses, by the rule of staging. At the nucleus: the storage for "
            "outputs."
        ),
    ),
    Rule(
        "B20",
        "Scouts, merge jobs and jobs of unknown walltime go to queues of 24 h or more.",
        (f"{CHECKS}.walltime",),
        (f"{CHECKS}.walltime:LONG_ENOUGH",),
        "A `max_walltime` of 0 is no limit. Users can mend a refusal of scouts: `scouts: 0`.",
    ),
    Rule(
        "B21",
        (
            "The expected walltime, by CPU time, cores, core power and efficiency, is below the queue's "
            "maximum, and at least its minimum."
        ),
        (f"{CHECKS}.walltime",),
        settled=(
            "Without `cpu_time` the task's own `walltime`; unknown core power counts as 10. For the maximum "
            "the fewest events count, for the minimum the most."
        ),
    ),
    Rule(
        "B22",
        "The queue has the network reach and the IP stack that the task asks for.",
        (f"{CHECKS}.network",),
        settled="`full` includes `http` and `none`; `http` includes `none`.",
    ),
    Rule(
        "B23",
        (
            "Event-service jobs go to queues that take them; ordinary jobs go to all queues but those for "
            "event service only."
        ),
        (f"{CHECKS}.admission",),
        settled="Merge jobs are no event-service jobs.",
    ),
    Rule(
        "B24",
        (
            "The number of jobs that transfer outputs is at most the limit, or twice the number of running "
            "jobs."
        ),
        (f"{CHECKS}.data_movement",),
        ("brokerage.transferring_limit",),
        "A declared 0 means 0.",
    ),
    Rule("B25", "A `t1_weight` of -1 keeps normal jobs at the nucleus.", (f"{CHECKS}.nucleus",)),
    Rule(
        "B26",
        "A pilot of the queue called in the last 3 h.",
        (f"{CHECKS}.status",),
        (f"{CHECKS}.status:NO_PILOTS_AFTER", f"{CHECKS}.status:NO_PILOTS_AFTER_OTHERS"),
        (
            "A queue with a computing element passes while pilots can be started there. A queue whose "
            "pilots never called passes for 3 h after the first submission, or for ten minutes if as many "
            "pilots that were submitted elsewhere since have called. A day after the last submission it "
            "counts as new again."
        ),
    ),
    Rule(
        "B27",
        "Urgent jobs, and jobs of priority 1000, need a good network weight.",
        (f"{CHECKS}.network",),
        (
            "brokerage.nw_threshold",
            "brokerage.nw_weight_multiplier",
            f"{ENGINE}.task_columns:URGENT_PRIORITY",
        ),
        "Urgent means a `processing_type` with that word in it.",
    ),
    Rule(
        "B30",
        (
            "R, the number of jobs that a queue can run: the largest of running jobs, batch workers up to "
            "20, and declared slots."
        ),
        (f"{PRODUCTION}.placement", f"{CHECKS}.status"),
        (f"{PRODUCTION}.placement:BOOTSTRAP",),
        (
            "From here to B36, only jobs of the job's global share count; workers are running and submitted "
            "pilots. Starting jobs count if `num_slots` is 0. If it is not declared, the slots of our own "
            "pilots, `max_pilots` × `pilot_slots`, count while one called in the last 3 h: as 20 at most if "
            "none ever did, and not at all if the queue went silent. Jobs that fast rebrokerage moved do "
            "not return until a pilot has called from the queue that they left."
        ),
    ),
    Rule(
        "B31",
        "Assigned jobs of a queue count only against jobs with missing input.",
        (f"{PRODUCTION}.placement",),
    ),
    Rule(
        "B32",
        "Weight: (R+1) / ((activated+assigned+starting+defined+10) × many); many: assigned/activated, 1..2.",
        (f"{PRODUCTION}.placement",),
        settled="If none is activated, many is 2 if any is assigned, else 1.",
    ),
    Rule(
        "B33",
        "× (available+total) / (total × (missing files/100 + 1)), bytes of input.",
        (f"{PRODUCTION}.candidates", f"{ENGINE}.job_groups", f"{ENGINE}.task_columns"),
        settled="Over all the task's jobs that are brokered together, each file once. "
        "A job without input: 1. Tape is not available. Files without bytes count by number.",
    ),
    Rule(
        "B34",
        "× network weight: the mean of queued weight, 2 - files/cap, and throughput weight, 1 to 2.",
        (f"{ENGINE}.nuclei",),
        ("brokerage.nqueued_sat_cap",),
        "1 without a nucleus. Can be switched off separately.",
    ),
    Rule(
        "B35",
        "The throughput is the latest of 1 h, 1 d, 1 w; without any, 1 + (11-closeness)/11.",
        (f"{ENGINE}.link_weights", f"{ENGINE}.nuclei", "store.transfers.link_rates"),
        ("model.rules.sources:UNKNOWN_CLOSENESS", f"{ENGINE}.nuclei:NUCLEUS_WEIGHT"),
        (
            "The nucleus has a separate network weight. Our own transfers are measured in all three "
            "windows: the last hour, and the 24 and 168 hours by the clock that end with this one. A window "
            "without transfers has its declared value."
        ),
    ),
    Rule(
        "B36",
        "At most 2R jobs wait at a queue.",
        (f"{PRODUCTION}.placement",),
        ("brokerage.nqueue_limit_site",),
        (
            "2R is never below the limit, which may differ by global share. Jobs that only this rule holds "
            "back are pending (B37)."
        ),
    ),
    Rule(
        "B37",
        "No queue left: pending for an hour. Else the best 10 by weight.",
        (f"{PRODUCTION}.cycle", "flow.steps.broker"),
        ("brokerage.pending_time", "brokerage.max_candidates"),
        (
            "B36 also counts as a refusal: jobs with full queues only are pending after 5 s. "
            "Ties are drawn with the world's seed. The hour ends as soon as a queue would "
            "take the job; a job that starts makes room."
        ),
    ),
    Rule(
        "B38",
        (
            "Jobs are spread over the candidates. A candidate's weight falls with each job, and B36 is "
            "never exceeded."
        ),
        (f"{PRODUCTION}.placement", f"{PRODUCTION}.cycle"),
        settled="Jobs placed in a pass count in it immediately.",
    ),
    Rule(
        "T",
        (
            "Jobs that are too long in a state, or have a silent pilot, move on: see the "
            "[time-outs](timeouts.md)."
        ),
        (
            "policies.watchdog.timeouts",
            "model.rules.timeouts",
            "policies.tasks.throttling",
            "model.rules.job_rooms",
        ),
        settled=(
            "A started job becomes a new attempt; another job is brokered again. A job that its pilot never "
            "reported counts as a try. Jobs beyond a quota of live jobs (user, group, VO) are throttled, "
            "and are released in order when others end. A job's lease follows the heartbeat time-out of its "
            "own workflow. The `sub_status` of jobs that upload their outputs themselves does not apply: "
            "pilots store outputs before a job leaves `running`, and send heartbeats in that time; the "
            "server moves outputs of transferring jobs, by transfers with separate heartbeats."
        ),
    ),
    Rule(
        "T fast",
        "Fast rebrokerage moves the waiting jobs of a queue beyond all three thresholds, oldest first.",
        ("model.rules.rebrokerage", "policies.watchdog.timeouts"),
        (
            "timeouts.fast_rebro_threshold_nqnr_ratio",
            "timeouts.fast_rebro_threshold_nqueue_frac",
            "timeouts.fast_rebro_wait",
        ),
        settled=(
            "Only of shares with a threshold, and not at queues with `num_slots`: slots of our own pilots "
            "do not count as such. A job stays for an hour first, or it would move back and forth. A "
            "starting job moves as its next attempt, while it has one left."
        ),
    ),
    Rule(
        "D1",
        "One criterion decides the share of a transfer: user, VO, group or role.",
        ("model.rules.transfer_shares",),
        ("staging.share_by",),
        "By the identity of the token. `none` is one share.",
    ),
    Rule(
        "D2",
        "Priority of a transfer: base priority of its share × the task's `transfer_priority` / 100.",
        ("model.rules.transfer_shares", "store.commit.transfer_requests", "policies.staging.unwanted"),
        ("staging.default_priority",),
        (
            "Rounded down, 1 at least; values outside 1..100 are refused. Shares without a base are "
            "`_default`. A file of several tasks has the best of their priorities; a download that no job "
            "waits for is cancelled."
        ),
    ),
    Rule(
        "D3",
        (
            "Shares that have transfers get slots by base priority; within a share the highest priority "
            "comes first."
        ),
        ("policies.staging.shares", "policies.staging.order"),
        settled="Equal priorities by age.",
    ),
    Rule(
        "D4",
        "Every pass shares the slots again; no share has more than it needs, and each has one at least.",
        ("policies.staging.shares", "policies.staging.slots", "model.rules.transfer_limits"),
        ("staging.delivery_slots",),
        (
            "Transfers that wait for a full storage or link need no slot. Rounded by largest remainder, "
            "with the same total; equal shares take the remaining slots in turns, drawn with the world's "
            "seed."
        ),
    ),
    Rule(
        "D5",
        "A share that waits without a slot while all are taken gets an emergency slot immediately.",
        ("policies.staging.slots",),
        ("staging.max_emergency", "staging.emergency_after"),
        (
            "One a share. It becomes a regular slot when another transfer ends, and no transfer starts in "
            "its place. While slots change hands, only transfers that arrived after the last assignment get "
            "one: emergency slots never become the rule."
        ),
    ),
    Rule(
        "D6",
        "Downloads and uploads are separate shares.",
        ("policies.staging.slots",),
        ("staging.sub_shares",),
        "`SHARE-download`, `SHARE-upload`; a task may name another sub-share that has a base priority.",
    ),
    Rule(
        "D7",
        "A transfer that has waited past its time-out gains 1 for every 5 min.",
        ("policies.staging.order",),
        ("staging.ageing_timeout", "staging.ageing_period"),
        "Up to the highest that is queued in its share; its own priority does not change.",
    ),
    Rule(
        "D8",
        "Preparing, delivering and finishing are queues, each with its slots; D3 to D7 apply in each.",
        (
            "model.records.transfer_queues",
            "model.values.slot_parts",
            "policies.staging.preparing",
            "policies.staging.slots",
            "policies.staging.settle",
        ),
        (
            "staging.preparing_slots",
            "staging.delivery_slots",
            "staging.finishing_slots",
            "staging.files_per_slot",
        ),
        (
            "Preparing chooses the source; finishing records the replica and releases the jobs. No delivery "
            "starts while as many delivered transfers wait to be finished as there are slots. "
            "`files_per_slot` files of at most 1 MB share a slot; 1 is the published text."
        ),
    ),
    Rule(
        "D9",
        "Priorities of live transfers can be changed.",
        ("flow.transfer_priorities",),
        settled="By a file `dtr.state.prio` or `transfers.prio` in the server's home, by API, by command.",
    ),
    Rule(
        "D10",
        "A share of high priority starves no other, and no transfer starves within its share.",
        ("policies.staging.slots",),
    ),
    Rule(
        "D11",
        (
            "The highest priorities of the whole queue may exceed the bound on transfers that are prepared "
            "and not yet delivered."
        ),
        ("policies.staging.preparing",),
        ("staging.highest_pass", "staging.max_prepared"),
        (
            "Transfers with a slot of delivering do not count. A share with nothing prepared may exceed the "
            "bound with one, as in an emergency (D5)."
        ),
    ),
    Rule(
        "P1",
        "Jobs of like requirements at a queue are a task queue; CPU time is rounded up to a segment.",
        ("model.records.requirements", "policies.pilots.demand"),
        ("model.records.requirements:CPU_SEGMENTS",),
        (
            "Empty task queues do not count. Work is in HS23 seconds; time is work over the power of the "
            "queue's cores."
        ),
    ),
    Rule(
        "P2",
        "Pilots are shared by priority over the sum of priorities, and by jobs over the sum of jobs.",
        (
            "policies.pilots.formula",
            "policies.pilots.demand",
            "policies.pilots.director",
            "store.servers.iterations",
        ),
        ("director.pilots_per_iteration", "director.period"),
        (
            "If no job waits, no pilot is submitted. One iteration in a period, however many servers run; "
            "an iteration without room for any pilot, or with all its pilots withdrawn, does not count. "
            "Each task queue counts with its own priority, whatever its owner: P12 and P13 have shares by "
            "owner."
        ),
    ),
    Rule(
        "P3",
        "The target is drawn from a Poisson distribution, with a boost for short jobs.",
        ("policies.pilots.formula",),
        ("director.max_cpu", "director.lowest_cpu_boost"),
    ),
    Rule(
        "P4",
        "At most (1 + fraction) × jobs + extra pilots, less the waiting pilots.",
        ("policies.pilots.formula", "policies.pilots.pilot_capacity", "policies.pilots.apportionment"),
        ("director.extra_pilot_fraction", "director.extra_pilots", "director.max_pilot_waiting_hours"),
        (
            "A pilot of several slots counts for as many jobs. A pilot that waits too long does not count "
            "and takes no room. Room is shared by the means of P3, over the queues of a site and the task "
            "queues of a queue."
        ),
    ),
    Rule(
        "P5",
        "Submit pools, in random order, each a bounded pool of workers.",
        ("policies.pilots.pools", "flow.outside.submit_pools"),
        ("director.submit_pools", "director.default_submit_pools"),
        (
            "A task names others with `submit_pools`. The director tries the next pool if one is full; if "
            "all are full, the pilots of that task queue wait for the next iteration."
        ),
    ),
    Rule(
        "P6",
        "Directors submit to the middleware; after failures they pause.",
        ("policies.pilots.servers", "model.circuit_breakers.pilots", "model.values.ranking"),
        ("director.failing_pause",),
        (
            "The circuit breaker of a server opens if pilots fail before they call, or report a full disk "
            "at their call: twice as long each time, an hour at most. Then one pilot probes it, or "
            "immediately if the declaration of its queue changes. `rank` orders the servers of an element."
        ),
    ),
    Rule(
        "P7",
        "Pilots are generic, or private to an owner and group.",
        ("policies.pilots.new_pilots", "policies.pilots.fitting"),
        (
            "director.private_pilot_fraction",
            "director.private_pilot_fraction_by_vo",
            "director.generic_identity",
        ),
        (
            "The fraction is the private part. A task with `private_pilots` gets only private pilots, one "
            "with `force_generic` only generic pilots, and a site only its `pilot_kinds`."
        ),
    ),
    Rule(
        "P8",
        "List-match first, if required: no resource, no pilot.",
        ("policies.pilots.list_match", "flow.outside.inquiries"),
        ("flow.outside.inquiries:KEPT_FOR",),
        (
            'Pilotage asks each server of P6; "no resource" concerns only the server that answered so. The '
            "breaker of a server that does not answer opens, twice as long each time, an hour at most. "
            "Answers are kept for 5 minutes. An adapter that cannot answer refuses no pilot."
        ),
    ),
    Rule(
        "P9",
        "A pilot's credential lasts 5 days and gives access to its own work only.",
        (
            "policies.pilots.credentials",
            "policies.pilots.owner_credentials",
            "flow.calls.pilots.enrol",
            "flow.steps.provision",
        ),
        ("policies.pilots.credentials:LIFETIME",),
        (
            "A token, renewed up to the end of the pilot's walltime, and void when the pilot has ended. The "
            "pilot's order carries another, which is exchanged for it once. At the site, a private pilot "
            "goes with the credential of its owner or group, if the computing element has one."
        ),
    ),
    Rule(
        "P10",
        "Each pilot is recorded with task queue, owner, kind and size before it is submitted.",
        ("policies.pilots.new_pilots", "flow.steps.provision"),
        settled=(
            "Also with site, submit pool, server, and the kind of its computing element. A recorded pilot "
            "without a known submission is submitted again under its name."
        ),
    ),
    Rule(
        "P11",
        "Options reload while the server runs; log names contain the submit pool.",
        ("flow.outside.submit_pools", "flow.steps.provision", "ports.computing"),
        settled=(
            "Each pass takes the federation in force. The log of a pool is `pilotage.submit_pools.NAME`; "
            "adapters log there too while they submit."
        ),
    ),
    Rule(
        "P12",
        "A second policy of the director, with exact totals and back-off.",
        (
            *("policies.pilots.balanced", "policies.pilots.circuit_breakers", "policies.pilots.reports"),
            "model.circuit_breakers.empty_pilots",
        ),
        ("director.policy", "director.empty_pause", "director.work_per_slot"),
        (
            "`balanced` makes as many pilots as are missing, up to an iteration's, and counts every pilot "
            "that could serve a task queue: a submitted one for all jobs that it will take within "
            "`work_per_slot`. An owner's task queues have together the share of the highest priority. After "
            "pilots end without work, a circuit breaker opens as in P6; for jobs that need GPUs or "
            "containers also if the nodes of pilots sent for these lack them. One pilot probes a queue "
            "where no pilot of the last hour had them; others wait for it for ten minutes at most."
        ),
    ),
    Rule(
        "P13",
        "A pilot takes the job of the highest claim: task queues drawn by priority, then priority, then age.",
        (
            "policies.pilots.matcher",
            "policies.pilots.weighted_draw",
            "policies.pilots.share_turns",
            "policies.pilots.batch_waits",
        ),
        ("loops.pilot_idle", "loops.pilot_idle_most"),
        (
            "In exact proportion; a share belongs to its owner, however many task queues these are. Of "
            "several global shares the one that is furthest below its target comes first, whatever the "
            "priorities. No two pilots get the same attempt. Slots that are free after that may take jobs "
            "of other queues (E1, E2). A pilot without a job stays as long as a new one would wait in the "
            "batch system (E5)."
        ),
    ),
    Rule(
        "M1",
        "Sites are native, a batch system with its storage, or forwarding, a grid behind one entrance.",
        ("adapters.computing.forwarding",),
        settled=(
            "A forwarding site may be another Pilotage, which gets whole jobs, or an ARC or HTCondor "
            "entrance, which gets pilots."
        ),
    ),
    Rule(
        "M2",
        "Sites advertise a ClassAd: entry point, stations, monitoring URL, and counts.",
        (
            f"{ENGINE}.site_ads",
            "model.records.advertisements",
            "model.rules.stations",
            "flow.matching.site_variables",
            "policies.pilots.advertising",
        ),
        ("brokerage.advertise_period", "model.records.advertisements:PERIODS"),
        (
            "An ad is as old as the last answer of the site's batch system; the first waits for no answer. "
            "An ad older than so many periods matches nothing, and the refusal gives its age and the "
            "reason. The entry point is the address of the computing element. Case does not matter in "
            "names, and known names have types: a wrong ad is refused, and a wrong stored ad affects only "
            "its own site. Station names in a site's ad override others, and payloads get them and the "
            "monitoring URL. Operators add attributes to the ad."
        ),
    ),
    Rule(
        "M3",
        "A list of stations becomes the job's Requirements; users may add constraints and a Rank.",
        (f"{ENGINE}.job_ads", "model.rules.stations"),
        settled=(
            "`stations`, `site_requirements` and `site_rank` of a task. A storage names its station, unless "
            "the site or its operators name others, which tasks may name."
        ),
    ),
    Rule(
        "M4",
        "Both Requirements must be true; one of the matching sites is drawn.",
        (f"{MATCHMAKING}.cycle", f"{ENGINE}.site_matches", f"{MATCHMAKING}.fitness"),
        settled=(
            "Among the sites of the highest Rank, by the world's seed; then a queue of the site that can "
            "run the job. A refusal names the part that is not true, its owner, and its values."
        ),
    ),
    Rule(
        "M5",
        "Jobs count at a site from their match to their end; CurMatches is CurrentJobs and one more a match.",
        (
            "model.rules.site_limits",
            f"{ENGINE}.site_ads",
            "model.records.advertisements",
            "store.queues.advertisements",
        ),
        settled=(
            "With or without a pilot, at native and forwarding sites alike: the commit's claims count the "
            "jobs, so an advertisement never loses one. A job that waits to be merged does not count. "
            "Submitting jobs are those that no pilot runs yet. Slots of live pilots stay within MaxJobs, "
            "too. Other people's jobs count as last reported, less our pilots. "
            "JobsMatchedSinceLastAdvertisement are the jobs matched since then that no pilot runs yet."
        ),
    ),
    Rule(
        "M6",
        "CurMatches < MaxJobs, and matched and submitting jobs < MaxSubmittingJobs.",
        (f"{ENGINE}.site_ads", f"{ENGINE}.advertised_sites"),
        settled=(
            "Evaluated by the ClassAd library. `throttle: current` is the text's simple variant: the same "
            "limit, compared with CurrentJobs. `max_pending_jobs` bounds jobs that no pilot runs yet beside "
            "the pending jobs of the batch system. `time()` and `random()` come from the world."
        ),
    ),
    Rule(
        "M7",
        "One match-making cycle every five minutes.",
        (f"{MATCHMAKING}.cycle", f"{MATCHMAKING}.turns", "flow.brokerages"),
        ("brokerage.match_period",),
        (
            "A job without a match is PENDING until the next cycle, in which all waiting jobs compete by "
            "priority. A new job is matched when it arrives, but takes no place that a waiting job of "
            "higher priority could take; nor does a job that a pass reads before others of higher priority."
        ),
    ),
    Rule(
        "M8",
        ("The same throttle bounds the jobs and pilots that any brokerage or the director sends to a site."),
        (
            f"{ENGINE}.site_claims",
            f"{ENGINE}.guards",
            "flow.held_places",
            "policies.pilots.pilot_capacity",
            "policies.pilots.borrowing",
        ),
        settled=(
            "Jobs that any brokerage places or binds again claim their places at the site; so do jobs that "
            "pilots take from other sites, in MaxJobs alone, because they start immediately in a slot. "
            "Pilots claim their slots. A silent site is bounded by its last report. A site's own "
            "requirements apply to the placements of every plugin. Between cycles no plugin takes a place "
            "that a waiting matchmaking job of higher priority could take; production jobs do not wait for "
            "cycles."
        ),
    ),
)
"""All rules of the production brokerage, time-outs, data staging, pilots and matchmaking, in order."""
