"""The task that runs workers."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed.security import Security

if TYPE_CHECKING:
    from pilotage.client import Client
    from pilotage.client.session import Session

LONELY = 300
"""Seconds after which a worker ends that finds no scheduler."""

TLS_FILES = {"ca_file": "ca.pem", "cert": "cert.pem", "key": "key.pem"}
"""What workers need for TLS, and the files of a job that hold it: they are secrets."""


class WorkerTask:
    """What workers of one cluster are run with."""

    def __init__(
        self,
        name: str,
        cores: int,
        memory: int,
        nanny: bool,
        request: Mapping[str, Any],
        fields: Mapping[str, Any],
        security: Security | None,
    ) -> None:
        """Take a worker's resources, ``memory`` in bytes, and what the user requests in addition."""
        self._name = name
        self._cores, self._memory, self._nanny = cores, memory, nanny
        self._request, self._fields = request, fields
        tls = security.get_tls_config_for_role("worker") if security else {}
        self._contents = {file: _content(tls[field]) for field, file in TLS_FILES.items() if tls.get(field)}

    def document(self, session: "Session[Client]") -> dict[str, Any]:
        """Return the task, but for its parameters ``worker`` and ``scheduler``. Its secrets are kept then."""
        from pilotage.client.requested import requested_numbers, requested_queues, requested_texts

        for file, content in self._contents.items():
            session.persevere(partial(session.client.set_secret, self._secret(file), content))
        secrets = [{"name": self._secret(file), "file": file} for file in self._contents]
        fields = requested_numbers(self._request, {"walltime": ("walltime", 1)})
        texts = requested_texts(self._request, {"conda": "conda"})
        queues = requested_queues(self._request["queue"], self._request["site"], session.queues_of)
        return {
            "name": self._name,
            "labels": {"dask": self._name},
            "cores": self._cores,
            "ram": self._memory / 1e6,
            "ram_unit": "MB",
            "scouts": 0,
            # Another job with another name follows.
            "max_attempts": 1,
            "command": ["sh", "-c", self._script()],
            **fields,
            **texts,
            **queues,
            **({"secrets": secrets} if secrets else {}),
            **self._fields,
        }

    def _script(self) -> str:
        options = {
            "nthreads": self._cores,
            "memory-limit": self._memory,
            "death-timeout": LONELY,
            "local-directory": '"$TMPDIR"',
        }
        options |= {
            f"tls-{field.replace('_', '-')}": f'"$PILOTAGE_SECRETS/{file}"' for field, file in self._files()
        }
        words = [f"--{name} {value}" for name, value in options.items()]
        nanny = "--nanny" if self._nanny else "--no-nanny"
        names = '"$PILOTAGE_PARAMETER_scheduler" --name "$PILOTAGE_PARAMETER_worker"'
        return " ".join(
            ["exec python3 -m distributed.cli.dask_worker", names, nanny, "--no-dashboard", *words]
        )

    def _files(self) -> list[tuple[str, str]]:
        return [(field, file) for field, file in TLS_FILES.items() if file in self._contents]

    def _secret(self, file: str) -> str:
        return f"dask-{self._name}-{file}"

    def remove_secrets(self, session: "Session[Client]") -> None:
        """Remove what workers needed for TLS."""
        from pilotage.client import ClientError

        for file in self._contents:
            try:
                session.client.remove_secret(self._secret(file))
            except ClientError as error:
                session.report(f"the secret {self._secret(file)} is not removed: {error}")


def _content(text: str) -> str:
    """Return a text, or the content of the file that it names."""
    return text if "\n" in text else Path(text).read_text()
