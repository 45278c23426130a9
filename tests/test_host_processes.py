"""Processes are known by a name that no other has, and only those of this machine are judged."""

import errno
import subprocess
import sys

import pytest

from pilotage.flow.outside import host_processes
from pilotage.flow.outside.host_processes import HostProcesses

if not HostProcesses().name:
    pytest.skip("processes have no names here: /proc is missing", allow_module_level=True)


def test_a_process_is_gone_once_it_has_ended_also_before_anybody_asked_for_its_exit_code() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        name, here = HostProcesses(child.pid).name, HostProcesses()
        assert here.gone([name, here.name]) == set()
        child.kill()
        while not here.gone([name]):
            assert child.returncode is None
        child.wait()
    assert here.gone([name, here.name]) == {name}


def test_a_number_that_was_given_to_another_process_is_another_name() -> None:
    here = HostProcesses()
    earlier = here.name.rpartition(" ")[0] + " 1"
    assert here.gone([earlier]) == {earlier}


def test_processes_of_other_machines_and_namespaces_are_not_judged() -> None:
    here = HostProcesses()
    host, machine, boot, space, *_ = here.name.split()
    ended = ("999999999", "1")
    others = [
        ("elsewhere", machine, boot, space),
        (host, "other", boot, space),
        (host, machine, boot, "pid:[1]"),
    ]
    assert here.gone([*(" ".join((*one, *ended)) for one in others), "", "no name"]) == set()
    assert len(here.gone([" ".join((host, machine, boot, space, *ended))])) == 1


def test_a_process_of_which_the_system_tells_nothing_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_file_left(_: int) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    here = HostProcesses()
    monkeypatch.setattr(host_processes, "process_start", no_file_left)
    assert here.gone([here.name]) == set()


def test_a_process_that_proc_hides_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    here = HostProcesses()
    monkeypatch.setattr(host_processes, "process_start", lambda _: None)
    assert here.gone([here.name]) == {here.name}
    monkeypatch.setattr(host_processes, "is_hidden", lambda _: True)
    assert here.gone([here.name]) == set()


@pytest.mark.parametrize(("machine", "judged"), [("0123abcd", True), ("", False)])
def test_what_ran_before_the_machine_was_started_anew_is_gone_if_it_is_the_same_machine(
    monkeypatch: pytest.MonkeyPatch, machine: str, judged: bool
) -> None:
    read = host_processes._read
    monkeypatch.setattr(
        host_processes, "_read", lambda path: machine if path == "/etc/machine-id" else read(path)
    )
    here = HostProcesses()
    parts = here.name.split()
    before = " ".join((*parts[:2], "earlier", *parts[3:]))
    assert bool(here.gone([before])) is judged
