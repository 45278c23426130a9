"""A real ARC computing element on loopback: A-REX with its fork backend and its own test authority.

Debian's packages are needed; ``lacking()`` says which. Nothing listens but one HTTPS port on 127.0.0.1.
"""

import contextlib
import http.client
import os
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

STARTERS = Path("/usr/share/arc")
NEEDED = ("arcctl", "arched", "openssl")
READY = 240.0

CONFIGURATION = """\
[common]
hostname=localhost
x509_host_key={place}/host-localhost-key.pem
x509_host_cert={place}/host-localhost-cert.pem
x509_cert_dir={place}/certificates
[authgroup:all]
file={place}/allowed
[mapping]
map_to_user=all nobody:nogroup
[lrms]
lrms=fork
[arex]
controldir={place}/control
sessiondir={place}/session
logfile={place}/log/arex.log
joblog={place}/log/jobs.log
helperlog={place}/log/helper.log
pidfile={place}/run/arex.pid
wakeupperiod=1
tmpdir={place}/tmp
[arex/data-staging]
logfile={place}/log/staging.log
[arex/ws]
wsurl={url}
logfile={place}/log/arex-ws.log
pidfile={place}/run/arex-ws.pid
[arex/ws/jobs]
allowaccess=all
[infosys]
logfile={place}/log/infosys.log
[infosys/glue2]
[infosys/cluster]
[queue:fork]
"""


def lacking() -> str:
    """What this machine lacks to run it, empty where nothing is missing."""
    missing = [name for name in NEEDED if not shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin")]
    if missing or not (STARTERS / "arc-arex-start").exists():
        return "no ARC computing element is installed here; `make test-sites` installs Debian's"
    return "" if os.geteuid() == 0 else "A-REX starts jobs as another user, for which it must be root"


@dataclass
class ArcServer:
    """A-REX below a directory that every user may enter, with certificates of alice and bob."""

    place: Path
    port: int

    @property
    def url(self) -> str:
        """The service's endpoint."""
        return f"https://localhost:{self.port}/arex"

    @property
    def options(self) -> dict[str, Any]:
        """Options of a computing element of kind ``arc`` that reach it as alice."""
        return {
            "endpoint": self.url,
            **self.credential("alice"),
            "ca_path": str(self.place / "certificates"),
            "queue": "fork",
            "python": "/usr/bin/python3",
        }

    def credential(self, person: str) -> dict[str, str]:
        """The options that are a person's credential."""
        files = {"certificate_file": "cert", "key_file": "key"}
        return {name: str(self.place / f"client-{person}-{part}.pem") for name, part in files.items()}

    def prepare(self) -> None:
        """Write the configuration, the authority, and both certificates."""
        for name in ("control", "session", "log", "run", "tmp"):
            (self.place / name).mkdir(parents=True)
        (self.place / "session").chmod(0o755)
        (self.place / "tmp").chmod(0o1777)
        self._configuration.write_text(CONFIGURATION.format(place=self.place, url=self.url))
        arcctl = ("arcctl", "-c", str(self._configuration), "test-ca")
        self._run(*arcctl, "init", "-f")
        self._run(*arcctl, "hostcert", "-n", "localhost", "-f")
        subject, allowed = ("openssl", "x509", "-noout", "-subject", "-nameopt", "compat"), ""
        for person in ("alice", "bob"):
            self._run(*arcctl, "usercert", "-n", person, "-f", "--no-auth")
            said = self._run(*subject, "-in", str(self.place / f"client-{person}-cert.pem"))
            allowed += f'"{said.partition("=")[2].strip()}"\n'
        (self.place / "allowed").write_text(allowed)
        # Else the starter makes 4096 bits of its own in the background, which takes a core for minutes.
        self._run("openssl", "dhparam", "-dsaparam", "-out", f"{self.place}/control/dhparam.pem", "2048")
        self._starter(
            "arex", "<arex:gmconfig>", "<arex:InfoproviderWakeupPeriod>2</arex:InfoproviderWakeupPeriod>{}"
        )
        self._starter("arex-ws", "<tcp:Port>", "<tcp:Interface>127.0.0.1</tcp:Interface>{}")

    def start(self) -> None:
        """Start A-REX and its web service, and wait until it has looked at its batch system."""
        begun = time.time()
        for name in ("arex", "arex-ws"):
            self._run("/bin/bash", str(self.place / f"{name}-start"))
        end, info = time.monotonic() + READY, self.place / "control/info.xml"
        while not info.exists() or info.stat().st_mtime < begun or not self._answers():
            if time.monotonic() > end:
                raise AssertionError(f"ARC does not start\n{self.last_words()}")
            time.sleep(0.2)

    def kill(self) -> None:
        """``kill -9`` A-REX with its helpers, and its web service; the jobs that it started live on."""
        for process in self._daemons():
            for one in [process, *process.children(recursive=True)]:
                with contextlib.suppress(psutil.NoSuchProcess):  # a helper lives for milliseconds
                    if one == process or "arc" in " ".join(one.cmdline()):
                        one.send_signal(signal.SIGKILL)
        for name in ("arex", "arex-ws"):
            (self.place / f"run/{name}.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """End everything, jobs included."""
        self.kill()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid != os.getpid() and process.cwd().startswith(str(self.place)):
                    process.kill()

    def last_words(self) -> str:
        """The end of every log."""
        logs = sorted((self.place / "log").glob("*"))
        return "\n".join(
            f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}" for log in logs if log.is_file()
        )

    def _answers(self) -> bool:
        """Tell whether the service answers requests: its port is open before it can speak TLS."""
        context = ssl.create_default_context(capath=self.options["ca_path"])
        context.load_cert_chain(self.options["certificate_file"], self.options["key_file"])
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=10, context=context)
        with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
            connection.request("GET", "/arex/rest/1.0")
            return connection.getresponse().status < 500
        return False

    @property
    def _configuration(self) -> Path:
        return self.place / "arc.conf"

    def _daemons(self) -> Iterator[psutil.Process]:
        for name in ("arex", "arex-ws"):
            with contextlib.suppress(FileNotFoundError, ValueError, psutil.NoSuchProcess):
                yield psutil.Process(int((self.place / f"run/{name}.pid").read_text()))

    def _starter(self, name: str, before: str, text: str) -> None:
        """A copy of Debian's starter, with settings that arc.conf does not have."""
        (self.place / f"{name}-start").write_text(
            (STARTERS / f"arc-{name}-start").read_text().replace(before, text.format(before))
        )

    def _run(self, *command: str) -> str:
        """Run a command with an environment of its own: A-REX hands down what it has to every job."""
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "ARC_CONFIG": str(self._configuration),
        }
        said, log = self.place / "log/command.out", self.place / "log/commands.log"
        # Daemons keep their output open, so that nobody could wait for its end.
        with said.open("w") as output, log.open("a") as errors:
            done = subprocess.run(
                # A-REX closes every file that it may have open, one by one, in each process that it starts.
                ["prlimit", "--nofile=1024", *command],
                cwd=self.place,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                timeout=READY,
                check=False,
            )
        if done.returncode:
            raise AssertionError(f"{command}: exit {done.returncode}\n{self.last_words()}")
        return said.read_text()
