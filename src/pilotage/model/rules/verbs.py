"""What people do to work and places. Routes, commands and actions of the page take each verb from here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """What a person does to a record. Its route, its command and its page have its ``name``."""

    name: str
    done: str
    """What the page says afterwards."""
    help: str = ""
    """What it does, as a command and a route say it."""
    example: str = ""
    """A command line."""
    outcome: str = ""
    """What its jobs then are, such as held."""
    word: str = ""
    """How the page calls it, if not by its name."""
    is_dangerous: bool = False
    """Whether it cannot be undone, or affects everybody."""
    is_for_operators: bool = False

    @property
    def label(self) -> str:
        """Return the first words of the page's question."""
        return self.word or self.name.capitalize()


RETRY = Verb(
    name="retry",
    help="Run jobs again that failed or were cancelled. Jobs that are done stay.",
    example="pilotage retry 12 --set ram=4000, or one job of it: pilotage retry job:345",
    outcome="retried",
    done="Retried.",
)
SET = Verb(
    name="set",
    help="Change fields of jobs that have not started, and of those not made yet.",
    example="pilotage set 12 ram=4000 walltime=7200",
    outcome="changed",
    done="Changed.",
    word="Change",
)
HOLD = Verb(
    name="hold",
    help="Hold back a task's jobs until you release it. Running jobs go on.",
    example="pilotage hold 12, or many: pilotage hold --label campaign=a",
    outcome="held",
    done="Held: no more jobs start until you release it.",
)
RELEASE = Verb(
    name="release",
    help="Let jobs of a held task start again.",
    example="pilotage release 12",
    outcome="released",
    done="Released.",
)
FINISH = Verb(
    name="finish",
    help="End a task now, also a failed one, with the outputs so far: a merge takes them. Other jobs end.",
    example="pilotage finish 12",
    outcome="cancelled",
    done="Ended with what is done.",
    is_dangerous=True,
)
CANCEL = Verb(
    name="cancel",
    help="Cancel tasks, with their jobs and transfers, or single jobs. Outputs that are stored stay.",
    example="pilotage cancel 12, or one job: pilotage cancel job:345",
    done="Cancelled.",
    is_dangerous=True,
)
DELETE = Verb(
    name="delete",
    help="Delete tasks that have ended, and copies that they alone used; with --outputs their results too.",
    example="pilotage delete 12, or with its results: pilotage delete 12 --outputs",
    done="Deleted.",
    is_dangerous=True,
)
GRANT = Verb(
    name="grant",
    help="Let a person or a group read a task, a workflow or a dataset: results, logs, explanations.",
    example="pilotage grant 12 bob, or a group for some time: pilotage grant 12 group:higgs --until 30d",
    done="Granted.",
    word="Share",
)
REVOKE = Verb(
    name="revoke",
    help="End a grant to read a task, a workflow or a dataset.",
    example="pilotage revoke 12 bob",
    done="Revoked.",
)
END_SESSION = Verb(name="end", done="The session has ended.", word="End")
LIMIT = Verb(name="limit", done="The limits are in force.")
UNLIMIT = Verb(name="unlimit", done="The limits are lifted.", word="Lift the limits of")
LIFT = Verb(name="lift", done="Lifted.", is_for_operators=True)
DRAIN = Verb(
    name="drain", done="Drained: nothing new starts there.", is_dangerous=True, is_for_operators=True
)
CLOSE = Verb(name="close", done="Closed until it is opened.", is_dangerous=True, is_for_operators=True)
OPEN = Verb(name="open", done="Opened.", is_for_operators=True)
LOAD = Verb(name="load", done="Loaded: it is in force.", is_for_operators=True)
ROLLBACK = Verb(
    name="rollback",
    done="The earlier version is in force again.",
    word="Go back to",
    is_dangerous=True,
    is_for_operators=True,
)

OF_TASKS = (HOLD, RELEASE, FINISH)
"""Those that take a task and nothing else."""

OF_WORK = (RETRY, SET, *OF_TASKS, CANCEL)
"""Those on tasks and jobs."""

VERBS = {
    verb.name: verb
    for verb in (
        *(*OF_WORK, DELETE, GRANT, REVOKE, END_SESSION),
        *(LIMIT, UNLIMIT, LIFT, DRAIN, CLOSE, OPEN, LOAD, ROLLBACK),
    )
}
