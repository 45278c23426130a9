"""HTCondor's client for the adapter: one process per call, with limits for time and answer."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from pilotage.adapters.computing.batch.profile import DOUBTFUL
from pilotage.ports.bounded_process import inherited, run_process

LONGEST_CALL = 120.0
"""Time limit of a call in s."""

LARGEST_ANSWER = 32 << 20
PASSED_ON = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "CONDOR_CONFIG", "SSL_CERT_FILE", "SSL_CERT_DIR")


class CondorClient(Protocol):
    """The connection that sends requests of ``.client_calls``."""

    def call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request.

        Raises OSError if there is none. Its ``reached`` is true if the schedd got the request.
        """


class NotAnswered(OSError):
    """A call without an answer. ``reached`` is true if a schedd may have acted on it.

    ``in_doubt`` is true if it may still do so.
    """

    def __init__(self, text: str, *, reached: bool, in_doubt: bool = False) -> None:
        super().__init__(text)
        self.reached, self.in_doubt = reached, in_doubt


class ProcessClient:
    """Makes calls in processes that have the credentials of one computing element in their environment."""

    def __init__(self, config_file: str, token_file: str, ca_path: str) -> None:
        self._config_file, self._token_file, self._ca_path = config_file, token_file, ca_path

    def call(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Make a call. Raises NotAnswered."""
        command = [sys.executable, "-I", "-m", "pilotage.adapters.computing.htcondor.client_calls"]
        end = run_process(command, json.dumps(request).encode(), self._environment(), LONGEST_CALL)
        if end.code is None:
            raise NotAnswered(
                f"HTCondor does not answer within {LONGEST_CALL:g} s", reached=True, in_doubt=True
            )
        if end.code or len(end.out) > LARGEST_ANSWER:
            message = end.complaints.decode(errors="replace")[-300:] or f"exit status {end.code}"
            raise NotAnswered(f"HTCondor's client fails: {message}", reached=True, in_doubt=True)
        try:
            answer: dict[str, Any] = json.loads(end.out)
        except ValueError as error:
            raise NotAnswered(
                f"HTCondor's client answers nonsense: {error}", reached=True, in_doubt=True
            ) from None
        if "error" in answer:
            text = str(answer["error"])
            in_doubt = any(words in text.lower() for words in DOUBTFUL)
            raise NotAnswered(text, reached=bool(answer.get("reached")), in_doubt=in_doubt)
        return answer

    def _environment(self) -> dict[str, str]:
        variables = inherited(PASSED_ON)
        if self._config_file:
            variables["CONDOR_CONFIG"] = self._config_file
        elif "CONDOR_CONFIG" not in variables and not Path("/etc/condor/condor_config").exists():
            # ONLY_ENV: read no file, only environment variables.
            variables["CONDOR_CONFIG"] = "ONLY_ENV"
        if self._token_file:
            variables["_CONDOR_SCITOKENS_FILE"] = variables["BEARER_TOKEN_FILE"] = self._token_file
            variables["_CONDOR_SEC_CLIENT_AUTHENTICATION_METHODS"] = "SCITOKENS, SSL"
        if self._ca_path:
            kind = "CADIR" if Path(self._ca_path).is_dir() else "CAFILE"
            variables[f"_CONDOR_AUTH_SSL_CLIENT_{kind}"] = self._ca_path
        return variables
