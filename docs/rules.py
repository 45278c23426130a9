"""The published rules in our own words: where each stands, what it is settled by, and its defaults.

Texts as data for the page of conformance (``generate.py``); a test holds them against code and tests.
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
    """One rule. ``where`` names modules below ``pilotage``; none means that it is not built yet.

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
    """The rule's constants by name, with their values as they stand in the code."""
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
    """By rule the test functions whose name or docstring carries it; T is carried by a module's docstring."""
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
        'All queues are considered, less those with "test" in the name, in any case.',
        (f"{CHECKS}.status",),
        settled="A test queue that the task names is considered.",
    ),
    Rule(
        "B2",
        "Where the task names queues, only these; a unified queue stands for its pseudo-queues.",
        (
            f"{CHECKS}.status",
            f"{ENGINE}.guards",
            f"{ENGINE}.task_columns",
            "model.records.unified_queues",
            "policies.pilots.pseudo_queues",
        ),
        settled="A named queue passes every check but B4; what B4 would have said is told. "
        "A pseudo-queue has its unified queue's conditions besides its own, and shares its limits. "
        "Pilots of a unified queue take jobs of its pseudo-queues.",
    ),
    Rule(
        "B3",
        "Merge jobs go to the queues where their input lies, until they have been skipped for 24 h.",
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
        "For priority 800, scouts, merge jobs and what is merged later: a job started lately, or none waits.",
        (f"{CHECKS}.status",),
        (f"{CHECKS}.status:INACTIVE_AFTER",),
        "Never started counts as not started; the activated jobs must have been there as long.",
    ),
    Rule(
        "B10",
        "The queue's fair-share policy gives the work more than 0 %.",
        (f"{CHECKS}.admission", "model.values.fairshare"),
        settled="The first entry that matches decides; without one the remainder of 100 %. Merge jobs skip "
        "entries about the priority. Faults are found where the file is read.",
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
        "Over all jobs brokered together, each file once; merge jobs are exempt. Waived where no queue is "
        "left; with `input_moves: sooner` also where the queues that are left are full (B36), and for queues "
        "to which all input moves, at the links' measured throughput, before the last job would start. "
        "Simulated: in `data-heavy`, five seeds, `sooner` takes 0.87 of the task time (0.80 to 0.96), for "
        "1.9 times the bytes moved (1.1 to 3.2). The other six scenarios have no I/O-intensive work. In four "
        "drawn federations with such work it changed nothing.",
    ),
    Rule(
        "B12",
        "Where the mean disk I/O of jobs that run now is above the queue's limit, tasks above are refused.",
        (
            f"{CHECKS}.data_movement",
            "agent.payload.disk_rate",
            "policies.pilots.reports",
            "store.worlds.broker_facts",
        ),
        ("brokerage.max_diskio_default",),
        "Per core. No limit by default; a queue that reports nothing refuses nothing. Pilots report each "
        "job's rate after a minute, then at most every five minutes where it changed. The mean is over the "
        "latest rates: a job that ends leaves it, and where nothing runs it is 0.",
    ),
    Rule(
        "B13",
        "The cores match: one core on queues of one, several where there are as many; `max_cores` bounds.",
        (f"{CHECKS}.size",),
        settled="0 cores, of task or queue, goes with any.",
    ),
    Rule(
        "B14",
        "The queue publishes the software, container and hardware that the task asks for.",
        (
            *(f"{CHECKS}.admission", f"{CHECKS}.size", f"{ENGINE}.offers", f"{ENGINE}.local_checks"),
            "model.circuit_breakers.empty_pilots",
        ),
        settled="Software is skipped where `releases` have `ANY`, the default; hardware is checked where it "
        "is published. A platform asks for its processor, a base platform for containers. A task's `gpus` "
        "are within the queue's; an architecture that names a GPU asks for one. A queue is closed to jobs "
        "that need containers or GPUs while its circuit breaker of P12 is open: all its nodes that pilots "
        "looked at since the last good one lack them. Jobs that wait there go elsewhere.",
    ),
    Rule(
        "B15",
        "The expected memory, 0.9 of what is asked, is within the queue's limits.",
        (f"{CHECKS}.size",),
        ("brokerage.memory_compensation",),
        "`ram` is per core used there, unless `ram_unit` is MB: then without base. A limit of 0 is none.",
    ),
    Rule("B16", "A task that reads only directly goes to queues that can.", (f"{CHECKS}.data_movement",)),
    Rule(
        "B17",
        "Copied input, output (500 MB at least) and scratch fit the cores' part of the work directory.",
        (f"{CHECKS}.size", f"{ENGINE}.spec_table"),
        (f"{ENGINE}.spec_table:LEAST_OUTPUT",),
        "In MB; the fewest events that a job may have. Input that the queue reads directly counts nothing, "
        "unless the task has `copy_inputs`. Of a pseudo-queue the cores of its unified queue "
        "share the directory. A merge job's output is the sum of its inputs.",
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
        "In GB. Storages are asked in each period; an answer counts for three of them. Where none counts, the"
        " federation's number does, and is shown as *declared*: then its file is what to change. A storage's"
        " own `storage_min_free` counts before the federation's.",
    ),
    Rule(
        "B19",
        "No storage is blacklisted for what a job has to read or write there.",
        (f"{CHECKS}.data_movement", f"{ENGINE}.reach", "model.rules.sources"),
        settled="Apart for reading and writing, local and wide area. An input that can be brought from "
        "nowhere refuses always, by the rule of staging. At the nucleus: the storage where outputs go.",
    ),
    Rule(
        "B20",
        "Scouts, merge jobs and jobs of unknown walltime go to queues of 24 h or more.",
        (f"{CHECKS}.walltime",),
        (f"{CHECKS}.walltime:LONG_ENOUGH",),
        "A `max_walltime` of 0 is no limit. Users mend what refuses scouts: `scouts: 0`.",
    ),
    Rule(
        "B21",
        "The expected walltime, by CPU time, cores, core power and efficiency, is below the queue's most, "
        "and no less than its least.",
        (f"{CHECKS}.walltime",),
        settled="Without `cpu_time` the task's `walltime` as given; unknown core power counts as 10. "
        "At the most the fewest events count, "
        "at the least the most.",
    ),
    Rule(
        "B22",
        "The queue's network reaches as far as asked, and has the IP stack that is asked for.",
        (f"{CHECKS}.network",),
        settled="`full` serves `http` and `none`, `http` serves `none`.",
    ),
    Rule(
        "B23",
        "Event service goes to queues that take it, ordinary work to all but those for nothing else.",
        (f"{CHECKS}.admission",),
        settled="Merge jobs are no event service.",
    ),
    Rule(
        "B24",
        "No more jobs are transferring than the limit, or than twice as many as run.",
        (f"{CHECKS}.data_movement",),
        ("brokerage.transferring_limit",),
        "A declared 0 is 0.",
    ),
    Rule("B25", "A `t1_weight` of -1 keeps normal jobs at the nucleus.", (f"{CHECKS}.nucleus",)),
    Rule(
        "B26",
        "A pilot of the queue was seen in the last 3 h.",
        (f"{CHECKS}.status",),
        (f"{CHECKS}.status:NO_PILOTS_AFTER", f"{CHECKS}.status:NO_PILOTS_AFTER_OTHERS"),
        "A queue with a computing element passes while pilots can be started there. One from which none "
        "ever called passes for 3 h after the first submission, or for ten minutes if as many pilots that "
        "were submitted elsewhere since have called. A day after the last submission it begins anew.",
    ),
    Rule(
        "B27",
        "Urgent work, or of priority 1000, needs a good network weight.",
        (f"{CHECKS}.network",),
        (
            "brokerage.nw_threshold",
            "brokerage.nw_weight_multiplier",
            f"{ENGINE}.task_columns:URGENT_PRIORITY",
        ),
        "Urgent is a `processing_type` with that word in it.",
    ),
    Rule(
        "B30",
        "R, what a queue can run: the most of what runs, batch workers up to 20, and declared slots.",
        (f"{PRODUCTION}.placement", f"{CHECKS}.status"),
        (f"{PRODUCTION}.placement:BOOTSTRAP",),
        "Of the job's own global share, here to B36; workers are running and submitted pilots. Starting jobs "
        "count where `num_slots` is 0. Where it is not given, the slots of our own pilots, `max_pilots` × "
        "`pilot_slots`, count while one called in the last 3 h, as 20 at most where none ever did, and not "
        "at all at queues that went silent. What fast rebrokerage moved does not return until a pilot has "
        "called from the queue that it left.",
    ),
    Rule(
        "B31",
        "Assigned jobs of a queue count only against jobs whose input is not there.",
        (f"{PRODUCTION}.placement",),
    ),
    Rule(
        "B32",
        "Weight: (R+1) / ((activated+assigned+starting+defined+10) × many); many: assigned/activated, 1..2.",
        (f"{PRODUCTION}.placement",),
        settled="Nothing activated: many is 2 if any is assigned, else 1.",
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
        "1 where there is no nucleus. Can be switched off by itself.",
    ),
    Rule(
        "B35",
        "The throughput is the latest of 1 h, 1 d, 1 w; without any, 1 + (11-closeness)/11.",
        (f"{ENGINE}.link_weights", f"{ENGINE}.nuclei", "store.tables.link_rates"),
        ("model.rules.sources:UNKNOWN_CLOSENESS", f"{ENGINE}.nuclei:NUCLEUS_WEIGHT"),
        "The nucleus itself has its own network weight. Our own transfers feed all three windows: the"
        " last hour, and the 24 and 168 hours by the clock that end with this one. A window without any is as"
        " declared.",
    ),
    Rule(
        "B36",
        "No more than 2R jobs wait at a queue.",
        (f"{PRODUCTION}.placement",),
        ("brokerage.nqueue_limit_site",),
        "2R is never below the limit, which may differ by global share. Jobs that only this holds back are "
        "pending (B37).",
    ),
    Rule(
        "B37",
        "No queue left: pending for an hour. Else the best 10 by weight.",
        (f"{PRODUCTION}.cycle", "flow.steps.broker"),
        ("brokerage.pending_time", "brokerage.max_candidates"),
        "B36 skips, too: jobs whose queues are all full are pending. Ties are drawn with the world's seed. "
        "The hour ends as soon as a queue would take the job; a job that starts makes room.",
    ),
    Rule(
        "B38",
        "Jobs are spread over the candidates, whose weight falls as they take more, never past B36.",
        (f"{PRODUCTION}.placement", f"{PRODUCTION}.cycle"),
        settled="Jobs placed in a pass count in it at once.",
    ),
    Rule(
        "T",
        "What is too long in a state, or whose pilot is silent, moves on: see the [time-outs](timeouts.md).",
        (
            "policies.watchdog.timeouts",
            "model.rules.timeouts",
            "policies.tasks.throttling",
            "model.rules.job_rooms",
        ),
        settled=(
            "What has started is a new attempt, what has not is brokered again; what a pilot was sent and "
            "never said is a try. Jobs beyond a quota of live jobs (user, group, VO) are throttled, and are "
            "released in order as room comes. A job's lease follows the heartbeat time-out of its own "
            "workflow. The `sub_status` of jobs that bring their outputs out themselves is not applicable: "
            "pilots store outputs before a job leaves `running`, with heartbeats all the while; what is "
            "transferring the server moves, by transfers with heartbeats of their own."
        ),
    ),
    Rule(
        "T fast",
        "Fast rebrokerage moves what waits at a queue beyond all three thresholds, oldest first.",
        ("model.rules.rebrokerage", "policies.watchdog.timeouts"),
        (
            "timeouts.fast_rebro_threshold_nqnr_ratio",
            "timeouts.fast_rebro_threshold_nqueue_frac",
            "timeouts.fast_rebro_wait",
        ),
        settled="Only of shares with a threshold, and not at queues with `num_slots`: slots of our own "
        "pilots are none. A job stays for an hour first, or it would come and go. A starting job moves as "
        "its next attempt, while it has one left.",
    ),
    Rule(
        "D1",
        "The share of a transfer goes by one criterion: user, VO, group or role.",
        ("model.rules.transfer_shares",),
        ("staging.share_by",),
        "By the identity of the token. `none` is one share.",
    ),
    Rule(
        "D2",
        "Priority of a transfer: base priority of its share × the task's `transfer_priority` / 100.",
        ("model.rules.transfer_shares", "store.commit.transfer_requests", "policies.staging.unwanted"),
        ("staging.default_priority",),
        "Rounded down, 1 at least; outside 1..100 it is refused. Shares without a base are `_default`. A file"
        " that several wait for has the best of theirs; a download that nobody waits for is cancelled.",
    ),
    Rule(
        "D3",
        "Slots go by base priority to shares that have transfers; within a share the highest goes first.",
        ("policies.staging.shares", "policies.staging.order"),
        settled="Equal ones by age.",
    ),
    Rule(
        "D4",
        "Every pass shares the slots again; no share has more than it needs, and each has one at least.",
        ("policies.staging.shares", "policies.staging.slots", "model.rules.transfer_limits"),
        ("staging.delivery_slots",),
        "What waits for a full storage or link needs none. Rounded by largest remainder, the total kept; what"
        " is left over goes round among equals, as the world's seed draws them.",
    ),
    Rule(
        "D5",
        "A share that waits without a slot, all being taken, gets an emergency slot at once.",
        ("policies.staging.slots",),
        ("staging.max_emergency", "staging.emergency_after"),
        "One a share. It turns regular when another transfer ends, and nothing starts in its place. While"
        " slots change hands, only for what came after the last was given: they never become the rule.",
    ),
    Rule(
        "D6",
        "Downloads and uploads are shares of their own.",
        ("policies.staging.slots",),
        ("staging.sub_shares",),
        "`SHARE-download`, `SHARE-upload`; a task may name another that has a base priority of its own.",
    ),
    Rule(
        "D7",
        "A transfer that has waited past its time-out gains 1 for every 5 min.",
        ("policies.staging.order",),
        ("staging.ageing_timeout", "staging.ageing_period"),
        "Up to the highest that is queued in its share; its own priority stays as it is.",
    ),
    Rule(
        "D8",
        "Preparing, delivering and finishing are queues, each with its slots; D3 to D7 hold in each.",
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
        "Preparing settles the source; finishing records the replica and tells the jobs. What waits to be"
        " finished holds back new deliveries once it is as much as there are slots. `files_per_slot` files of"
        " at most 1 MB share a slot; 1 is the text.",
    ),
    Rule(
        "D9",
        "Priorities of live transfers can be changed.",
        ("flow.transfer_priorities",),
        settled="By a file `dtr.state.prio` or `transfers.prio` in the server's home, by API, by command.",
    ),
    Rule(
        "D10",
        "A high share starves no other, and no transfer starves within its share.",
        ("policies.staging.slots",),
    ),
    Rule(
        "D11",
        "The highest priorities of the whole queue pass the bound on what is prepared, not delivered.",
        ("policies.staging.preparing",),
        ("staging.highest_pass", "staging.max_prepared"),
        "What has a slot of delivering counts no more. A share with nothing prepared passes it with one, as"
        " in an emergency (D5).",
    ),
    Rule(
        "P1",
        "Jobs of like requirements at a queue are a task queue; CPU time is rounded up to a segment.",
        ("model.records.requirements", "policies.pilots.demand"),
        ("model.records.requirements:CPU_SEGMENTS",),
        "Empty ones do not count. Work is in HS23 seconds; time is that over the power of the queue's cores.",
    ),
    Rule(
        "P2",
        "Pilots are shared by priority over the sum of priorities, and by jobs over the sum of jobs.",
        (
            "policies.pilots.formula",
            "policies.pilots.demand",
            "policies.pilots.director",
            "store.tables.iterations",
        ),
        ("director.pilots_per_iteration", "director.period"),
        "Nothing waits: nothing is submitted. One iteration in a period, however many servers look; "
        "one without room for any pilot, or whose pilots were all withdrawn, does not count. "
        "Each task queue counts with its own priority, whoever owns it: shares by owner are those of P12 and "
        "P13.",
    ),
    Rule(
        "P3",
        "The target is drawn from a Poisson distribution, with a boost for short jobs.",
        ("policies.pilots.formula",),
        ("director.max_cpu", "director.lowest_cpu_boost"),
    ),
    Rule(
        "P4",
        "No more than (1 + fraction) × jobs + extra pilots, less those that wait.",
        ("policies.pilots.formula", "policies.pilots.pilot_capacity", "policies.pilots.apportionment"),
        ("director.extra_pilot_fraction", "director.extra_pilots", "director.max_pilot_waiting_hours"),
        "A pilot of several slots counts for as many jobs. What waits too long does not count and holds no "
        "room. Room is shared by the means of P3, over the queues of a site and the task queues of a queue.",
    ),
    Rule(
        "P5",
        "Submit pools, in random order, each a bounded pool of workers.",
        ("policies.pilots.pools", "flow.outside.submit_pools"),
        ("director.submit_pools", "director.default_submit_pools"),
        "A task names others with `submit_pools`. A full pool passes to the next; where all are full, the "
        "pilots of that task queue wait for the next iteration.",
    ),
    Rule(
        "P6",
        "Directors submit to the middleware; what fails is left alone for a while.",
        ("policies.pilots.servers", "model.circuit_breakers.pilots", "model.values.ranking"),
        ("director.failing_pause",),
        "The circuit breaker of a server opens where pilots fail before they call, or call that their disk "
        "is full: twice as long each time, an hour at most. Then one pilot probes it, at once where its "
        "queue is declared otherwise. `rank` orders the servers of an element.",
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
        "The fraction is the part that is private. A task with `private_pilots` gets private ones only, one "
        "with `force_generic` generic ones, a site those of its `pilot_kinds`.",
    ),
    Rule(
        "P8",
        "List-match first, where asked: no resource, no pilot.",
        ("policies.pilots.list_match", "flow.outside.inquiries"),
        ("flow.outside.inquiries:KEPT_FOR",),
        'Each server of P6 is asked, and "no resource" holds for the server that said it. The breaker '
        "of one that does not answer opens, twice as long each time, an hour at most. Answers are kept for 5 "
        "minutes. An adapter that cannot tell refuses none.",
    ),
    Rule(
        "P9",
        "A pilot's credential lasts 5 days and reaches its own work only.",
        ("policies.pilots.credentials", "flow.calls.pilots.enrol", "flow.steps.provision"),
        ("policies.pilots.credentials:LIFETIME",),
        "A token, renewed for as long as the pilot may live, and void when it has ended. The pilot's order "
        "carries another, which is exchanged for it once.",
    ),
    Rule(
        "P10",
        "Each pilot is recorded with task queue, owner, kind and size before it is submitted.",
        ("policies.pilots.new_pilots", "flow.steps.provision"),
        settled="Also with site, submit pool, server, and the kind of its computing element. What was "
        "recorded, and of which no submission is known, is submitted again under its name.",
    ),
    Rule(
        "P11",
        "Options reload while running; log names follow the submit pool.",
        ("flow.outside.submit_pools", "flow.steps.provision", "ports.pool_logs"),
        settled="Each pass takes the federation in force. The log of a pool is `pilotage.submit_pools.NAME`; "
        "what adapters say while they submit is there, too.",
    ),
    Rule(
        "P12",
        "A second policy of the director, with exact totals and back-off.",
        (
            *("policies.pilots.balanced", "policies.pilots.circuit_breakers", "policies.pilots.reports"),
            "model.circuit_breakers.empty_pilots",
        ),
        ("director.policy", "director.empty_pause", "director.work_per_slot"),
        "`balanced` makes as many pilots as are missing, an iteration's at most, and counts every pilot that "
        "could serve a task queue: a submitted one for all jobs that it will take within `work_per_slot`. "
        "An owner's task queues have together the share of the highest priority. "
        "Where pilots ended without work a circuit breaker opens as in P6, for jobs that need GPUs or "
        "containers also where the nodes of pilots sent for these lack them. One pilot probes what no pilot "
        "of the last hour has found there; others wait for it for ten minutes at most.",
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
        "In exact proportion; a share is its owner's, however many task queues these are. Of several global "
        "shares the one that is furthest below its target goes first, whatever the priorities. "
        "No two pilots get the same attempt. What is free then may take jobs of other queues (E1, E2). "
        "One that is given nothing stays as long as a new one would wait in the batch system (E5).",
    ),
    Rule(
        "M1",
        "Sites are native, a batch system with its storage, or forwarding, a grid behind one entrance.",
        ("adapters.computing.forwarding",),
        settled="A forwarding site may be another Pilotage, to which jobs are handed whole, or an ARC or "
        "HTCondor entrance, to which pilots are.",
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
        "An ad is as old as the last answer of the site's batch system; the first waits for none. One older "
        "than so many periods matches nothing, and the refusal says since when and why. The entry point is "
        "the address of the computing element. Names have no case, known ones have types: a wrong ad is "
        "refused, and a stored one stops its own site alone. Station names that a site tells stand, and "
        "reach payloads, as does its monitoring URL. Operators add attributes to it.",
    ),
    Rule(
        "M3",
        "A list of stations becomes the job's Requirements; users may add constraints and a Rank.",
        (f"{ENGINE}.job_ads", "model.rules.stations"),
        settled="`stations`, `site_requirements` and `site_rank` of a task. A storage names its station, "
        "unless the site or its operators tell others, which tasks may name.",
    ),
    Rule(
        "M4",
        "Both Requirements must be true; one of the matching sites is drawn.",
        (f"{MATCHMAKING}.cycle", f"{ENGINE}.site_matches", f"{MATCHMAKING}.fitness"),
        settled="Among those of the highest Rank, by the world's seed; then a queue of it that can run the "
        "job. A refusal names the part that is not true, whose it is, and its values.",
    ),
    Rule(
        "M5",
        "Jobs count at a site from their match to their end; CurMatches is CurrentJobs and one more a match.",
        (
            "model.rules.site_limits",
            f"{ENGINE}.site_ads",
            "model.records.advertisements",
            "store.tables.advertisements",
        ),
        settled="Whether or not a pilot has them, at native and forwarding sites alike: the commit's claims "
        "count the jobs, so no advertisement forgets one. A job that waits to be merged has left its site. "
        "Submitting are those that no pilot runs yet. Slots of live pilots keep to MaxJobs, too. Jobs of "
        "others count as last told, less our pilots. JobsMatchedSinceLastAdvertisement are those matched "
        "since that no pilot runs yet.",
    ),
    Rule(
        "M6",
        "CurMatches < MaxJobs, and what was matched and is submitting < MaxSubmittingJobs.",
        (f"{ENGINE}.site_ads", f"{ENGINE}.advertised_sites"),
        settled="Evaluated by the ClassAd library. `throttle: current` is the text's simple variant: the "
        "same limit, read from CurrentJobs. `max_pending_jobs` bounds jobs that no pilot runs yet beside "
        "what pends in the batch system. `time()` and `random()` are the world's.",
    ),
    Rule(
        "M7",
        "One match-making cycle every five minutes.",
        (f"{MATCHMAKING}.cycle", f"{MATCHMAKING}.turns", "flow.matching.bindings"),
        ("brokerage.match_period",),
        "What matches nothing is PENDING until the next one, in which all that wait compete by priority. A "
        "new job is matched when it comes, but takes no place that a waiting job of higher priority could "
        "take; nor does one that a pass reads before others of higher priority.",
    ),
    Rule(
        "M8",
        "The same throttle bounds what any brokerage or the director hands to a site.",
        (
            f"{ENGINE}.site_claims",
            f"{ENGINE}.guards",
            "flow.held_places",
            "policies.pilots.pilot_capacity",
            "policies.pilots.borrowing",
        ),
        settled="Jobs that any brokerage places, and those that are bound again, claim their places at the "
        "site; so do those that pilots take from other sites, in MaxJobs alone, as they go straight into a "
        "slot. Pilots claim their slots. A site that fell silent is bounded by what it told last. A site's "
        "own requirements hold whichever plugin places there. Between cycles no plugin takes a place that a "
        "waiting matchmaking job of higher priority could take; production jobs do not wait for cycles.",
    ),
)
"""All rules of the production brokerage, time-outs, data staging, pilots and matchmaking, in order."""
