"""The shell script of a TES task's job: it places inputs, runs the executors in turn, notes their ends."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from posixpath import dirname
from shlex import quote

from pilotage.server.api.tes.container_paths import inside, plain
from pilotage.server.api.tes.records import TesExecutor
from pilotage.server.api.tes.states import SETUP_FAILED

SCRIPT = ".tes.sh"
MARK = ".pilotage-mount"
"""A file that shows whether a mount is there."""

NOTE = "pilotage-tes:"
"""The beginning of the lines about executors on standard output."""

LOGGED = 20_000
"""Most bytes of a redirected stream that are kept in the log."""

_BEGIN = f"""#!/bin/sh
# Pilotage made this script from a TES task.
here=$PWD
notes=
fail() {{ echo "pilotage: $*" >&2; exit {SETUP_FAILED}; }}
now() {{ date -u +%Y-%m-%dT%H:%M:%SZ; }}
size() {{ echo $(($(wc -c < "$here/$1"))); }}
place() {{
  mkdir -p "${{2%/*}}" && {{ ln "$1" "$2" 2> /dev/null || cp "$1" "$2"; }} || fail "$2 cannot be made"
}}
place_folder() {{
  mkdir -p "$2" && {{ cp -Rl "$1/." "$2/" 2> /dev/null || cp -R "$1/." "$2/"; }} || fail "$2 cannot be made"
}}
begin() {{ began=$(now); out=$(size stdout); err=$(size stderr); }}
note() {{
  streams="stdout $out-$(size stdout), stderr $err-$(size stderr)"
  line="{NOTE} executor $1 ended with $2, $began to $(now), $streams"
  notes="$notes$line
"
  printf '\\n%s\\n' "$line"
}}
finish() {{
  printf '\\n%s' "$notes"
  [ "$1" -eq {SETUP_FAILED} ] && exit 1
  exit "$1"
}}
"""


@dataclass(frozen=True, slots=True)
class PlacedInput:
    """A file or folder of the job's directory, and the executors' path of it."""

    source: str
    path: str
    is_folder: bool = False


def script(
    executors: Sequence[TesExecutor],
    inputs: Iterable[PlacedInput],
    folders: Iterable[str],
    mounts: Mapping[str, str],
) -> str:
    """Return the script. ``folders`` are made before the first executor."""
    lines = [_BEGIN]
    for target, folder in mounts.items():
        mark = quote(f"{target}/{MARK}")
        lines.append(
            f": > {quote(f'{folder}/{MARK}')} && [ -e {mark} ] || fail {quote(f'{target} is not mounted')}"
        )
        lines.append(f"rm -f {mark}")
    for item in sorted(inputs, key=lambda item: plain(item.path)):
        place = "place_folder" if item.is_folder else "place"
        lines.append(f"{place} {quote(item.source)} {quote(inside(item.path))}")
    lines += [f"mkdir -p {quote(inside(folder))}" for folder in sorted({plain(folder) for folder in folders})]
    for number, executor in enumerate(executors):
        lines += _executor(number, executor)
    return "\n".join([*lines, "finish 0", ""])


def _executor(number: int, executor: TesExecutor) -> list[str]:
    commands = [f"cd {quote(plain(executor.workdir))} || exit 126"] if executor.workdir else []
    commands += [f"export {name}={quote(value)}" for name, value in executor.env.items()]
    commands.append(f"exec {' '.join(map(quote, executor.command))}")
    streams = [f"< {quote(plain(executor.stdin) if executor.stdin else '/dev/null')}"]
    streams += [f"> {quote(plain(executor.stdout))}"] if executor.stdout else []
    streams += [f"2> {quote(plain(executor.stderr))}"] if executor.stderr else []
    tails = [f"tail -c {LOGGED} {quote(plain(executor.stdout))}"] if executor.stdout else []
    tails += [f"tail -c {LOGGED} {quote(plain(executor.stderr))} >&2"] if executor.stderr else []
    return [
        "begin",
        "(",
        *commands,
        f") {' '.join(streams)}",
        "code=$?",
        *tails,
        f"note {number} $code",
        *([] if executor.ignore_error else ["[ $code -eq 0 ] || finish $code"]),
    ]


def made_folders(
    executors: Iterable[TesExecutor], outputs: Iterable[str], volumes: Iterable[str]
) -> list[str]:
    """Return the folders that executors expect: volumes, workdirs, and those of streams and outputs."""
    streams = [path for executor in executors for path in (executor.stdin, executor.stdout, executor.stderr)]
    files = [path for path in (*streams, *outputs) if path]
    workdirs = [executor.workdir for executor in executors if executor.workdir]
    return [*volumes, *workdirs, *(dirname(plain(path)) for path in files)]
