"""The script that a batch system starts. It finds a Python and becomes a pilot. It holds no secret."""

import shlex
from collections.abc import Sequence
from dataclasses import replace

from pilotage.adapters.computing.agent_file import agent_options
from pilotage.adapters.computing.batch.options import BatchOptions, shell_path
from pilotage.adapters.computing.batch.spool import SpoolPaths
from pilotage.ports.computing import PilotOrder

EXITS = {
    72: "the worker node cannot read the pilot's files: option spool must be a directory that it shares "
    "with the login node",
    73: "the pilot cannot make its directory on the worker node: see option directory",
    78: "the worker node has no Python 3.9 or newer, which a pilot needs: name one with option python",
}
"""Meanings of the script's own exit codes."""

OTHERS = "python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9"

TEXT = """\
#!/bin/sh
# A pilot. It holds no secret: its token is in a file that its user alone may read.
umask 077
spool={spool}
logs={logs}
case "${{{index}:-}}" in
{names}
esac
{exports}token="$spool/tokens/$name"
agent="$spool/{agent}"
if [ ! -r "$token" ] || [ ! -r "$agent" ]; then
  echo "$(uname -n) cannot read $token or $agent: {unreadable}"
  exit 72
fi
found=
for python in {python} {others}; do
  if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    found=$python
    break
  fi
done
if [ -z "$found" ]; then
  rm -f "$token"
  echo "$(uname -n): {too_old}"
  exit 78
fi
# Another server's pilot may have this name and be on this node: each has its own directory.
work=$(mkdir -p {directory} && mktemp -d {directory}/"$name.XXXXXX") || exit 73
trap 'kill -TERM "$child" 2>/dev/null' TERM INT USR2
"$found" -I "$agent" {options} --directory="$work" --hide="$spool" \\
  --spool="$spool/left/$name" --token-file="$token" --remove-token-file </dev/null &
child=$!
wait "$child"
code=$?
while kill -0 "$child" 2>/dev/null; do
  wait "$child"
  code=$?
done
# A killed agent leaves the files of its attempts. The server starts these again elsewhere.
if [ "$code" -gt 128 ]; then rm -rf "$work"; else rmdir "$work" 2>/dev/null; fi
exit "$code"
"""


def pilot_script(
    orders: Sequence[PilotOrder], stem: str, paths: SpoolPaths, options: BatchOptions, index: str, url: str
) -> str:
    """Return the script of similar pilots. Each finds itself by its place in the array.

    ``stem`` is the common beginning of an array's logs; each pilot's name becomes a link to its log. ``url``
    is the server's address for pilots.
    """
    # Outside of arrays Grid Engine gives the index as "undefined".
    cases = [str(at) for at in range(1, len(orders) + 1)] if len(orders) > 1 else ["*"]
    names = [
        f"{case}) name={shlex.quote(order.name)}{_link(stem, order.name, at) if stem else ''} ;;"
        for at, (case, order) in enumerate(zip(cases, orders, strict=True), 1)
    ]
    exports = [f"export {name}={shlex.quote(str(value))}\n" for name, value in options.environment.items()]
    arguments = agent_options(replace(orders[0], server_url=url))
    more = [f"--spool-room={options.results_room:g}", f"--spool-days={options.results_days:g}"]
    more += [f"--identity={paths.identity}"] if options.tunnel else []
    return TEXT.format(
        spool=shlex.quote(paths.root),
        logs=shlex.quote(paths.logs),
        index=index,
        names="\n".join(names),
        exports="".join(exports),
        agent=paths.agent,
        unreadable=EXITS[72],
        too_old=EXITS[78],
        python=shlex.quote(options.python),
        others=OTHERS,
        directory=shell_path(options.directory),
        options=shlex.join([*arguments, *more]),
    )


def _link(stem: str, name: str, at: int) -> str:
    return f'; ln -sf {shlex.quote(f"{stem}.{at}.log")} "$logs/"{shlex.quote(f"{name}.log")}'
