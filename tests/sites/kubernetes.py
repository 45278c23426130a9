"""A real Kubernetes API server with etcd and the controllers of Jobs and garbage, on loopback.

No node is there: a test plays the kubelet by writing pods' states. No package has these programs: they are
taken from the PATH, or from the folder that ``PILOTAGE_KUBERNETES_BIN`` names.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import requests
import yaml

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager")
TOKEN = "token-of-the-bed"
READY = 300.0


def _path() -> str:
    return f"{os.environ.get('PILOTAGE_KUBERNETES_BIN', '')}:{os.environ.get('PATH', '')}"


def lacking() -> str:
    """What this machine lacks to run it, empty where nothing is missing."""
    missing = [name for name in NEEDED if not shutil.which(name, path=_path())]
    return f"no {', '.join(missing)}: put them into the folder PILOTAGE_KUBERNETES_BIN" if missing else ""


@contextmanager
def cluster(place: Path, ports: tuple[int, int, int]) -> Iterator[dict[str, Any]]:
    """Start it below a folder; yields options of a computing element that reach it."""
    etcd, peers, api = ports
    _commands(place)
    url = f"https://127.0.0.1:{api}"
    started = [
        ["etcd", f"--data-dir={place}/etcd", f"--listen-client-urls=http://127.0.0.1:{etcd}",
         f"--advertise-client-urls=http://127.0.0.1:{etcd}", f"--listen-peer-urls=http://127.0.0.1:{peers}"],
        ["kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd}", "--bind-address=127.0.0.1",
         f"--secure-port={api}", f"--cert-dir={place}/certificates", f"--token-auth-file={place}/tokens.csv",
         "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
         "--feature-gates=TTLAfterFinished=true", "--service-account-issuer=https://bed",
         f"--service-account-key-file={place}/key.pem",
         f"--service-account-signing-key-file={place}/key.pem"],
        ["kube-controller-manager", f"--kubeconfig={place}/kubeconfig", "--bind-address=127.0.0.1",
         "--port=0", "--secure-port=0", "--leader-elect=false",
         "--controllers=job,garbagecollector,ttl-after-finished",
         "--feature-gates=TTLAfterFinished=true"],
    ]  # fmt: skip
    with ExitStack() as stack:
        for command in started[:2]:
            stack.enter_context(_running(place, command))
        _wait(url, place)
        authority = str(place / "certificates/apiserver.crt")
        (place / "kubeconfig").write_text(yaml.safe_dump(_kubeconfig(url, authority)))
        stack.enter_context(_running(place, started[2]))
        yield {"kubeconfig": str(place / "kubeconfig"), "image": "python:3.12-slim"}


def _commands(place: Path) -> None:
    (place / "tokens.csv").write_text(f"{TOKEN},bed,1,system:masters\n")
    key = ["openssl", "genrsa", "-out", str(place / "key.pem"), "2048"]
    subprocess.run(key, check=True, capture_output=True)


def _kubeconfig(url: str, authority: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bed",
        "clusters": [{"name": "bed", "cluster": {"server": url, "certificate-authority": authority}}],
        "users": [{"name": "bed", "user": {"token": TOKEN}}],
        "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "bed"}}],
    }


@contextmanager
def _running(place: Path, command: list[str]) -> Iterator[None]:
    program = shutil.which(command[0], path=_path()) or command[0]
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(place)}
    with (place / f"{command[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *command[1:]], cwd=place, env=environment, stdout=log, stderr=log
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()


def _wait(url: str, place: Path) -> None:
    end = time.monotonic() + READY
    while True:
        with suppress(OSError):
            headers = {"Authorization": f"Bearer {TOKEN}"}
            authority = str(place / "certificates/apiserver.crt")
            answer = requests.get(f"{url}/readyz", headers=headers, verify=authority, timeout=5)
            if answer.status_code == 200:
                namespace = requests.get(
                    f"{url}/api/v1/namespaces/default", headers=headers, verify=authority, timeout=5
                )
                if namespace.status_code == 200:
                    return
        if time.monotonic() > end:
            logs = "\n".join(log.read_text()[-2000:] for log in place.glob("*.log"))
            raise AssertionError(f"the API server does not start\n{logs}")
        time.sleep(0.3)
