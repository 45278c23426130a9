"""Login nodes whose start-up files print and set what they like."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from pilotage.adapters.computing.slurm import Slurm
from pilotage.ports.computing import PilotOrder
from pilotage.ports.loop_thread import LoopThread

from .stand_in_commands import commands, lines

START_UP = """\
echo "Welcome to the cluster"
echo "7 jobs of yours wait" >&2
printf 'no end of line: '
export SQUEUE_FORMAT=%i SQUEUE_PARTITION=other SACCT_FORMAT=JobID SBATCH_PARTITION=other SLURM_CLUSTERS=b
export LSB_DEFAULTQUEUE=other BSUB_QUIET=1 SLURM_CONF=/etc/slurm.conf SLURM_JWT=secret SBATCH_COMMENT='two
SLURM_CONF=lines'
"""
SEEN = 'env | grep -E "^(SQUEUE|SACCT|SBATCH|SLURM|LSB|BSUB)_" | sort >>$S/environment; '


class Open(asyncssh.SSHServer):
    """Lets everybody in: it listens on loopback, for this test."""

    def begin_auth(self, username: str) -> bool:
        return False


@pytest.fixture
def login(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """A login node; its shell runs the file ``start`` first."""
    start, home = tmp_path / "start", tmp_path / "home"
    start.write_text(START_UP)
    home.mkdir()

    async def serve(process: "asyncssh.SSHServerProcess[bytes]") -> None:
        shell = await asyncio.create_subprocess_exec(
            *("bash", "-c", f". {start}; {process.command}"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "HOME": str(home)},
        )
        out, complaints = await shell.communicate(await process.stdin.read())
        process.stdout.write(out)
        process.stderr.write(complaints)
        process.exit(shell.returncode or 0)

    async def listen() -> "asyncssh.SSHAcceptor":
        key = asyncssh.generate_private_key("ssh-ed25519")
        (tmp_path / "key").write_bytes(key.export_private_key())
        return await asyncssh.listen(
            "127.0.0.1", 0, server_host_keys=[key], server_factory=Open, process_factory=serve, encoding=None
        )

    loop = LoopThread("test-login")
    server = loop.call(listen(), 30)
    public = asyncssh.read_private_key(tmp_path / "key").export_public_key().decode().strip()
    (tmp_path / "known").write_text(f"[127.0.0.1]:{server.get_port()} {public}\n")
    config = tmp_path / "config"
    config.write_text(f"UserKnownHostsFile {tmp_path / 'known'}\nIdentityAgent none\n")
    yield {"ssh": f"me@127.0.0.1:{server.get_port()}", "ssh_config": str(config)}

    async def close() -> None:
        server.close()
        await server.wait_closed()

    loop.call(close(), 30)


@pytest.fixture
def options(tmp_path: Path, login: dict[str, Any]) -> dict[str, Any]:
    listing = "printf '%-60s%-20s%-12s%-60s%-60s%-300s\\n' 12 PENDING 0:0 p Priority demo-pilot-1"
    scripts = {
        "sbatch": f"cat >/dev/null; {SEEN} echo 12",
        "squeue": f"{SEEN} [ ! -e $S/environment ] || {listing}",
        "sacct": f"{SEEN} true",
    }
    return {**login, "commands": commands(tmp_path / "bin", scripts), "spool": str(tmp_path / "spool")}


ORDER = PilotOrder(pilot=1, name="demo-pilot-1", token="t" * 20, server_url="http://127.0.0.1:8970")


def test_what_start_up_files_print_is_no_answer(options: dict[str, Any], tmp_path: Path) -> None:
    slurm = Slurm(options)
    (answer,) = slurm.submit([ORDER])
    assert (answer.reference, answer.error) == ("12/demo-pilot-1", "")
    assert slurm.poll([answer.reference])[answer.reference].state == "waiting"
    spools = [path.name for path in tmp_path.iterdir() if "Welcome" in path.name or "no end" in path.name]
    assert spools == []


def test_an_answer_keeps_the_variables_that_lead_to_the_system_alone(
    options: dict[str, Any], tmp_path: Path
) -> None:
    slurm = Slurm(options)
    slurm.submit([ORDER])
    slurm.poll(["12/demo-pilot-1", "13/demo-pilot-2"])
    assert set(lines(tmp_path / "bin", "environment")) - {"SLURM_BITSTR_LEN=0"} == {
        "SLURM_CONF=/etc/slurm.conf",
        "SLURM_JWT=secret",
    }


def test_a_shell_that_runs_nothing_is_no_answer(options: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "start").write_text("echo 'This account is currently not available.'; exit 0\n")
    with pytest.raises(OSError, match="does not run commands: This account is currently not available"):
        Slurm(options).poll(["12/demo-pilot-1"])
