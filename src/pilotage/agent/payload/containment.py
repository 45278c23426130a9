"""Start a payload so that it reaches nothing that is not its own.

``bubblewrap`` and ``namespaces`` put our own process, the *init*, between supervisor and payload. It is the
first process of a PID namespace; when it ends, the kernel kills all others there. ``landlock`` restricts the
payload itself. ``none`` lets the payload see all that its user sees.

The child reports to the supervisor in lines: ``error NUMBER`` (the command cannot start), ``fault TEXT`` (the
payload cannot be contained), ``started``, ``ended STATUS``. A payload without an init reports nothing when it
starts.
"""

from __future__ import annotations

import errno
import marshal
import os
import select
import signal

from ..machine import PR_SET_PDEATHSIG, die_with_parent, drop_capabilities, guard, prctl
from . import landlock, namespaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

WITH_INIT = ("bubblewrap", "namespaces")
_BUBBLEWRAP = (
    *("--die-with-parent", "--as-pid-1", "--cap-drop", "ALL"),
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
)


def launch(order: Mapping[str, Any], supervisor: int, pipe: int) -> NoReturn:
    """Become the payload, or its init, in a child of the supervisor. Write errors to ``pipe``."""
    try:
        # Use a new session: a payload that signals its process group must not hit its supervisor.
        os.setsid()
        die_with_parent(supervisor)
        # The fork inherited the supervisor's handlers. An executed command would still ignore the signals
        # ignored here.
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        mechanism = order["containment"]["mechanism"]
        if mechanism == "bubblewrap":
            _bubblewrap(order, pipe)
        elif mechanism == "namespaces":
            _namespaces(order, pipe)
        else:
            if mechanism == "landlock":
                drop_capabilities()
                _restrict(order)
            _execute(order, pipe)
    except Exception as error:
        _tell(pipe, f"fault {error}")
    finally:
        os._exit(127)


def _tell(pipe: int, line: str) -> None:
    os.write(pipe, line.replace("\n", " ").encode(errors="replace")[:1000] + b"\n")


def _restrict(order: Mapping[str, Any]) -> None:
    """Restrict this process by Landlock alone. For a link, its target counts."""
    containment = order["containment"]
    readable = [source for source, _, writable in containment["binds"] if not writable]
    writable = [source for source, _, writable in containment["binds"] if writable]
    devices = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "shm", "pts")]
    landlock.restrict([*readable, "/proc"], [*writable, *devices])


def _execute(order: Mapping[str, Any], pipe: int) -> NoReturn:
    """Execute the command. Success closes ``pipe``; a failure writes its errno there."""
    try:
        os.chdir(order["directory"])
        create = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        # Standard input may still be the pipe from the agent, which would show the lease to the payload.
        os.dup2(os.open(order["stdin"] or os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open("stdout", create, 0o644), 1)
        os.dup2(os.open("stderr", create, 0o644), 2)
        command = order["command"]
        os.execvpe(command[0], command, order["environment"])
    except OSError as error:
        _tell(pipe, f"error {error.errno or errno.EINVAL}")
    except (ValueError, TypeError):
        _tell(pipe, f"error {errno.EINVAL}")
    finally:
        os._exit(127)


def _close_standard_streams() -> None:
    """Close the pipes to the agent, which must end with the supervisor."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)


def _namespaces(order: Mapping[str, Any], pipe: int) -> NoReturn:
    """Enter namespaces and fork their first process. Live as long as that process."""
    _close_standard_streams()
    namespaces.enter()
    alive, living = os.pipe2(os.O_CLOEXEC)
    first = os.fork()
    if first == 0:
        try:
            os.close(living)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            # If the parent died before prctl took effect, the other end is closed.
            if select.select([alive], [], [], 0)[0]:
                os._exit(127)
            containment = order["containment"]
            namespaces.build_root(containment["binds"], containment["links"], order["memory"])
            drop_capabilities()
            _be_init(order, pipe)
        except Exception as error:
            _tell(pipe, f"fault {error}")
        finally:
            os._exit(127)
    # Now only the init holds the other end, so the reports end when the init ends.
    os.close(pipe)
    os.waitpid(first, 0)
    os._exit(0)


def _bubblewrap(order: Mapping[str, Any], pipe: int) -> NoReturn:
    """Become bubblewrap, which starts our init in a new Python."""
    containment = order["containment"]
    # A file in memory needs no path, so the agent's files can stay hidden in bubblewrap's new root.
    program = os.memfd_create("init", 0)
    data = containment["program"] + _framed(order)
    while data:
        data = data[os.write(program, data) :]
    os.lseek(program, 0, os.SEEK_SET)
    os.set_inheritable(pipe, True)
    _close_standard_streams()
    # Bubblewrap's messages go to the file of the payload's standard error.
    os.chdir(order["directory"])
    os.dup2(os.open("stderr", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644), 2)
    arguments = [containment["bubblewrap"], *_BUBBLEWRAP]
    for target, text in containment["links"]:
        arguments += ["--symlink", text, target]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for source, target, writable in containment["binds"]:
        device = source.startswith("/dev/")
        arguments += ["--dev-bind" if device else "--bind" if writable else "--ro-bind", source, target]
    arguments += ["--remount-ro", "/", "--chdir", order["directory"], "--", *containment["python"]]
    os.execv(containment["bubblewrap"], [*arguments, str(program), "containment", str(pipe)])


def _framed(value: object) -> bytes:
    document = marshal.dumps(value)  # type: ignore[arg-type]
    return b"%08d" % len(document) + document


def main(descriptor: int, pipe: str) -> None:
    """Run as the init below bubblewrap. The order follows the program in the same file."""
    size = int(os.read(descriptor, 8))
    order = marshal.loads(os.read(descriptor, size))
    os.close(descriptor)
    os.set_inheritable(int(pipe), False)
    try:
        _be_init(order, int(pipe))
    finally:
        os._exit(127)


def _be_init(order: Mapping[str, Any], pipe: int) -> NoReturn:
    """Start the payload as the first process of a namespace. Wait until no process is left there."""
    guard()
    # SIGINT would raise KeyboardInterrupt in Python. The namespace dies with the init.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    landlock.scope()
    reader, writer = os.pipe2(os.O_CLOEXEC)
    payload = os.fork()
    if payload == 0:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        _execute(order, writer)
    os.close(writer)
    # Executing the command closes the pipe, so an empty answer means success.
    failure = os.read(reader, 1000)
    if failure:
        os.write(pipe, failure)
        os._exit(0)
    _tell(pipe, "started")
    while True:
        try:
            process, status = os.wait()
        except ChildProcessError:
            os._exit(0)
        if process == payload:
            _tell(pipe, f"ended {status}")
