"""The commands by name, each with its module and its help.

The module of a command is loaded only where the command runs, so that short commands start fast.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from typer.core import TyperGroup
from typer.main import get_command_from_info, get_command_name, get_group_from_info
from typer.models import TyperInfo

from pilotage.cli.errors import BadInput
from pilotage.model.rules.verbs import DELETE, GRANT, OF_WORK, REVOKE

if TYPE_CHECKING:
    from typer import Typer
    from typer._click.core import Command, Context
    from typer._click.formatting import HelpFormatter
    from typer._click.shell_completion import CompletionItem


class CommandEntry(NamedTuple):
    """Where a command is, and its first paragraph of help. ``app`` is the variable of the module's commands.

    Without a command of its name in there, all of them are the entry's group.
    """

    module: str
    help: str
    app: str = "app"


SECTIONS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Begin": {
        "init": CommandEntry(
            "administration.initializing", "Describe this machine as a federation, and write an example task."
        ),
        "up": CommandEntry(
            "administration.server", "Start the server: the API and the loops, until it is interrupted."
        ),
        "demo": CommandEntry(
            "administration.server",
            "Run one real task all the way on this machine: five sites, their pilots and their transfers.",
        ),
    },
    "Submit work": {
        "submit": CommandEntry("work.submitting", "Submit tasks and print their ids."),
        "rerun": CommandEntry(
            "work.rerunning", "Submit the task of a manifest again, if its inputs are as they were."
        ),
        "secrets": CommandEntry("work.secrets", "Keep secrets that your payloads get."),
        "run": CommandEntry("work.running", "Run a command as a task, follow it, and print its output."),
    },
    "Look at work": {
        "status": CommandEntry(
            "work.tasks",
            "Show tasks, or one task with its jobs by queue and state, why it waits, and its place in line.",
        ),
        "workflows": CommandEntry(
            "work.workflows", "List workflows, newest first, with their tasks by state."
        ),
        "explain": CommandEntry(
            "work.explaining",
            "Say why jobs wait or where they went, newest decision first; or where they would go.",
        ),
        "jobs": CommandEntry(
            "work.jobs",
            "List a task's jobs: where they are, how long they wait and run, and how they failed.",
        ),
        "failures": CommandEntry(
            "work.failures",
            "List failed attempts of your jobs by day, error and queue; an operator sees all.",
        ),
        "usage": CommandEntry(
            "work.usage",
            "Show the core hours of your jobs, their efficiency, and the lost ones; an operator sees all.",
        ),
        "logs": CommandEntry(
            "work.logs",
            "Show the output of a payload, of a pilot's agent, or of a task's jobs: both ends of long logs.",
        ),
        "notify": CommandEntry(
            "work.notifications", "Show the notifications about tasks, and choose their receivers."
        ),
        "wait": CommandEntry(
            "work.waiting",
            "Return when tasks have ended: 0 if they are done, 1 if one failed or was cancelled.",
        ),
        "watch": CommandEntry(
            "work.waiting",
            "Show how tasks go on until they have ended: a bar for each on a terminal, else a line a change.",
        ),
    },
    "Change work": {
        **{verb.name: CommandEntry("work.steering", verb.help) for verb in OF_WORK},
        DELETE.name: CommandEntry("work.deleting", DELETE.help),
        GRANT.name: CommandEntry("work.granting", GRANT.help),
        REVOKE.name: CommandEntry("work.granting", REVOKE.help),
        "grants": CommandEntry(
            "work.granting",
            "List the readers of your work, and what you may read. An operator sees everybody's grants.",
        ),
    },
    "Results and files": {
        "fetch": CommandEntry(
            "data.fetching",
            "Download a task's outputs: each job's to JOB/NAME, its merge job's to NAME, with folders.",
        ),
        "manifest": CommandEntry(
            "work.rerunning",
            "Print what a task that has ended ran, where, with which inputs and outputs: an RO-Crate, as "
            "JSON.",
        ),
        "outputs": CommandEntry("work.tasks", "List the files that a task's jobs made, and their storages."),
        "publish": CommandEntry(
            "work.tasks",
            "Register outputs that could not enter the task's dataset, after you removed the obstacle.",
        ),
        "files": CommandEntry(
            "data.files", "Files of the catalogue: names in scopes, sizes, checksums, and where they lie."
        ),
    },
    "The federation": {
        "federation": CommandEntry(
            "places.federations",
            "Check a federation's file, add a cluster to it, load it, show the one in force, import one.",
        ),
        "sites": CommandEntry(
            "places.sites",
            "Show sites, their advertisements, and what matches them; drain, close or open one.",
        ),
        "queues": CommandEntry("places.queues", "Show queues; test, drain, close or open one."),
        "pilots": CommandEntry("places.pilots", "Show pilots, newest first."),
        "storages": CommandEntry(
            "data.storages",
            "Show storages, their space and circuit breakers; drain, close, open or move one.",
        ),
        "transfers": CommandEntry(
            "data.transfers", "Show transfers, newest first, or change the priority of some."
        ),
        "shares": CommandEntry(
            "places.queues",
            "Show global shares; set their targets.",
            "shares_app",
        ),
        "breakers": CommandEntry(
            "places.breakers", "Show circuit breakers that have tripped, and lift them."
        ),
    },
    "The server": {
        "doctor": CommandEntry(
            "administration.doctor",
            "Examine the installation: find faults, why they matter, and how to mend them.",
        ),
        "stuck": CommandEntry(
            "work.stuck",
            "List what made no progress, why, and what to do. For operators.",
        ),
        "servers": CommandEntry(
            "administration.servers",
            "Show the server processes that share the store, and what each leaves to others.",
        ),
        "login": CommandEntry(
            "administration.signing_in", "Sign in with an identity provider that the server accepts."
        ),
        "whoami": CommandEntry(
            "administration.signing_in", "Show who you are for the server, and what your token allows."
        ),
        "logout": CommandEntry(
            "administration.signing_in", "End the sign-in, here and at the provider. Other tokens stay."
        ),
        "token": CommandEntry("administration.tokens", "Make, list and revoke people's tokens."),
        "audit": CommandEntry(
            "administration.audit",
            "Show who did what: you, and others to your tasks and files; for an operator everybody.",
        ),
        "quotas": CommandEntry(
            "administration.quotas", "Show what limits your work; set limits of people, groups and VOs."
        ),
        "people": CommandEntry(
            "administration.people", "Close a person: end their tokens, tasks and pilots together."
        ),
        "store": CommandEntry("administration.store", "Back up the store, bring it back, and upgrade it."),
        "history": CommandEntry("administration.history", "Archive what ended long ago."),
    },
    "Decide and simulate": {
        "plan": CommandEntry(
            "planning.deciding",
            "Decide without changing anything, from a saved world, or for tasks that are not submitted yet.",
        ),
        "replay": CommandEntry(
            "planning.replaying",
            "List the worlds that the server kept, or decide from one again, without changing anything.",
        ),
        "world": CommandEntry("planning.worlds", "Save the world: everything that decisions read, as YAML."),
        "schema": CommandEntry(
            "planning.worlds", "Print the JSON Schema of a document, which editors can use to check files."
        ),
        "record": CommandEntry(
            "planning.recording",
            "Write the tasks of the last hours as a scenario: when they came, and how much work their jobs "
            "did.",
        ),
        "draw-scenario": CommandEntry(
            "planning.drawing",
            "Draw a scenario from a federation: some of its queues, under random conditions.",
        ),
        "simulate": CommandEntry(
            "planning.simulating",
            "Simulate work on a federation: the real steps in virtual time, without touching anything "
            "outside.",
        ),
    },
}

DAILY = (
    *("init", "up", "submit", "run", "status", "watch"),
    *("explain", "jobs", "logs", "retry", "cancel", "fetch"),
)
"""The commands of a day, which help shows first."""

WORDS: Mapping[str, str] = {
    **dict.fromkeys(("ps", "ls", "list", "info", "show", "qstat", "squeue"), "status"),
    **dict.fromkeys(("rm", "remove", "del"), "delete"),
    **dict.fromkeys(("resubmit", "restart"), "retry"),
    **dict.fromkeys(("kill", "stop", "abort", "qdel", "scancel"), "cancel"),
    **dict.fromkeys(("pause", "suspend"), "hold"),
    **dict.fromkeys(("resume", "unhold"), "release"),
    **dict.fromkeys(("qsub", "sbatch"), "submit"),
    **dict.fromkeys(("get", "download"), "fetch"),
    "top": "status --now",
    "queue": "queues",
    "log": "logs",
    "tail": "logs",
    "why": "explain",
    "share": "grant",
    "workflow": "workflows",
    "sinfo": "queues",
    "edit": "set",
}
"""Words that people try, and the command that does it."""

ENTRIES: Mapping[str, CommandEntry] = {
    name: entry for section in SECTIONS.values() for name, entry in section.items()
}


class Commands(Mapping[str, "Command"]):
    """The commands of ``ENTRIES``. Each is loaded on demand."""

    def __init__(self) -> None:
        self._loaded: dict[str, Command] = {}

    def __getitem__(self, name: str) -> "Command":
        if name not in self._loaded:
            self._loaded[name] = _loaded(name, ENTRIES[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(ENTRIES)

    def __len__(self) -> int:
        return len(ENTRIES)


def _loaded(name: str, entry: CommandEntry) -> "Command":
    app: Typer = getattr(import_module(f".{entry.module}", __package__), entry.app)
    # Help without rich: it takes longer to load than all else of a short command.
    plain: dict[str, Any] = {"pretty_exceptions_short": True, "rich_markup_mode": None}
    for info in app.registered_commands:
        if name == (info.name or get_command_name(getattr(info.callback, "__name__", ""))):
            return get_command_from_info(info, **plain)
    return get_group_from_info(TyperInfo(app, name=name), suggest_commands=True, **plain)


class LazyGroup(TyperGroup):
    """The group of all commands. Its help and its completion load none of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = Commands()  # type: ignore[assignment]

    def list_commands(self, ctx: "Context") -> list[str]:  # noqa: ARG002
        """Return the names of all commands, in the order of help."""
        return list(ENTRIES)

    def resolve_command(
        self, ctx: "Context", args: list[str]
    ) -> "tuple[str | None, Command | None, list[str]]":
        """Find the command of the first word. Raises ``BadInput`` for a word that leads to another."""
        if args and (command := WORDS.get(args[0])):
            raise BadInput(f"there is no command `{args[0]}`: `pilotage {command}`")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: "Context", formatter: "HelpFormatter") -> None:  # noqa: ARG002
        """Write what the commands of a day do, and the names of the others by section."""
        others = {title: [name for name in names if name not in DAILY] for title, names in SECTIONS.items()}
        with formatter.section("Every day"):
            formatter.write_dl([(name, ENTRIES[name].help) for name in DAILY])
        with formatter.section("More"):
            formatter.write_dl([(title, ", ".join(names)) for title, names in others.items()])
            formatter.write_paragraph()
            formatter.write_text("What each does: pilotage --commands, or pilotage COMMAND --help.")

    def all_commands(self, ctx: "Context") -> str:
        """Return what each command does, by section."""
        formatter = ctx.make_formatter()
        widest = max(map(len, ENTRIES))
        for title, entries in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), entry.help) for name, entry in entries.items()])
        return formatter.getvalue().strip()

    def shell_complete(self, ctx: "Context", incomplete: str) -> "list[CompletionItem]":
        """Complete the name of a command, or an option."""
        from typer._click.core import Command
        from typer._click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=entry.help)
            for name, entry in ENTRIES.items()
            if name.startswith(incomplete)
        ]
        return [*commands, *Command.shell_complete(self, ctx, incomplete)]
