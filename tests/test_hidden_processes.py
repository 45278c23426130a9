"""Processes that ``/proc`` hides, as under ``ProtectProc=`` of systemd: they have not ended."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from pilotage.ports import bounded_process
from pilotage.ports.bounded_process import is_hidden

SHOW = """\
import ctypes, importlib.util, os, time
specification = importlib.util.spec_from_file_location("bounded_process", {module!r})
module = importlib.util.module_from_spec(specification)
specification.loader.exec_module(module)
child = os.fork()
if child == 0:
    ctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE, as agents do
    time.sleep(60)
time.sleep(0.5)
seen = [module.process_start(child), module.is_hidden(child)]
os.kill(child, 9)
zombie = module.is_hidden(child)
os.waitpid(child, 0)
print(*seen, zombie, module.is_hidden(child))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to mount /proc in a namespace")
def test_a_hidden_process_runs_until_it_has_ended(tmp_path: Path) -> None:
    copy = Path(shutil.copy(bounded_process.__file__, tmp_path))
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    copy.chmod(0o644)
    script = (
        "mount -t proc -o hidepid=invisible proc /proc"
        ' && exec setpriv --reuid=65534 --regid=65534 --clear-groups /usr/bin/python3 -c "$0"'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, SHOW.format(module=str(copy))],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr)
    start, hidden, zombie, ended = done.stdout.split() or [done.stderr] * 4
    assert (start, hidden, ended) == ("None", "True", "False")
    assert zombie == "True", "its parent has not asked yet how it ended"


def test_a_visible_process_is_not_hidden() -> None:
    assert not is_hidden(os.getpid())
    assert not is_hidden(1)
