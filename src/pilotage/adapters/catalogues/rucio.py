"""Rucio as a catalogue, through its own client (the extra ``rucio``)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError
from requests import RequestException
from rucio.client import Client
from rucio.common.exception import (
    DataIdentifierNotFound,
    RucioException,
)

from pilotage.adapters.catalogues.rucio_outputs import Rses, RucioOutputs, path_below
from pilotage.model.documents.serialization import from_document
from pilotage.model.records.catalogues import ReplicationRule
from pilotage.model.records.work import InputFile
from pilotage.model.values.patterns import matcher
from pilotage.model.values.types import CLOSED, plain_checksum
from pilotage.ports.catalogue import MOST_FOUND, CatalogueError, FoundDataset, FoundFile, OutputFile

AT_ONCE = 1000
"""Most files in one request."""

CALL_TIMEOUT = 10
"""Seconds that one request may wait for the next bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RucioOptions:
    """Address and account of Rucio. Files on the server's machine may hold the secrets instead."""

    __pydantic_config__ = CLOSED

    url: Annotated[str, Field(pattern=r"^https?://")]
    """The URL of the Rucio server."""
    auth_url: Annotated[str, Field(pattern=r"^(https?://.*)?$")] = ""
    """The URL of the authentication server; empty: the same."""
    account: Annotated[str, Field(min_length=1, max_length=100)]
    """Rucio's account."""
    auth_type: Literal["userpass", "x509", "x509_proxy"] = "userpass"
    """How to authenticate."""
    username: str = ""
    """For ``userpass``."""
    password: str = ""
    """For ``userpass``."""
    password_file: str = ""
    """A file with the password in its first line. Each call reads it."""
    certificate: str = ""
    """Path of the certificate for ``x509``, or of the proxy."""
    key: str = ""
    """Path of the certificate's key."""
    ca: str = ""
    """Path of the authorities' certificates; empty: the system's."""
    vo: str = ""
    """VO of a Rucio that serves several; empty: none."""

    @property
    def credentials(self) -> dict[str, str]:
        """Return the credentials in the form of Rucio's client. Raises OSError if a file cannot be read."""
        if self.auth_type == "x509":
            return {"client_cert": self.certificate, "client_key": self.key}
        if self.auth_type == "x509_proxy":
            return {"client_proxy": self.certificate}
        password = self.password
        if self.password_file:
            password = Path(self.password_file).expanduser().read_text(encoding="utf-8").partition("\n")[0]
        return {"username": self.username, "password": password}


class Rucio:
    """Finds files and datasets in Rucio.

    Datasets have no versions. A closed one never changes again; an open one is refused.
    """

    def __init__(self, name: str, rses: Rses, options: Mapping[str, Any]) -> None:
        self._name = name
        self._rses = rses
        try:
            self._options = TypeAdapter(RucioOptions).validate_python(dict(options))
        except ValidationError as error:
            # Without the values, because one may be a password.
            faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
            raise ValueError(f"options: {'; '.join(faults)}") from None

    def matching(self, scope: str, glob: str) -> Sequence[FoundFile]:
        """See ``CataloguePort``."""
        accepts = matcher(glob)
        with self._open_client() as client:
            names = client.list_dids(scope, [{"name": _widened(glob)}], did_type="file")
            matches = [*islice((name for name in names if accepts(name)), MOST_FOUND + 1)]
            if len(matches) > MOST_FOUND:
                raise LookupError(f"more than {MOST_FOUND} files match {glob!r}; narrow the pattern")
            files: list[FoundFile] = []
            for start in range(0, len(matches), AT_ONCE):
                part = [{"scope": scope, "name": name} for name in matches[start : start + AT_ONCE]]
                files += self._lying(client.list_replicas(part))
        return sorted(files, key=lambda file: file.file.name)

    def dataset(self, scope: str, name: str, version: int | None = None) -> FoundDataset:
        """See ``CataloguePort``."""
        if version is not None:
            raise LookupError(
                f"the catalogue {self._name} has no versions of datasets; leave the version out"
            )
        with self._open_client() as client:
            try:
                record = client.get_did(scope, name)
            except DataIdentifierNotFound as error:
                raise LookupError(f"the catalogue {self._name} has no dataset {scope}:{name}") from error
            if record["type"] != "DATASET":
                kind = record["type"].lower()
                raise LookupError(f"{scope}:{name} is no dataset in {self._name} but a {kind}")
            if record["open"]:
                raise LookupError(
                    f"{scope}:{name} is still open in {self._name} and may change: close it there, or name "
                    "its files by a glob"
                )
            files = self._lying(client.list_replicas([{"scope": scope, "name": name}]))
            count = sum(1 for _ in client.list_files(scope, name))
        if len(files) < count:
            raise LookupError(f"{count - len(files)} of {count} files of {scope}:{name} have no replica")
        return FoundDataset(version=None, files=sorted(files, key=lambda file: file.file.name))

    def check_output(self, scope: str, dataset: str, storages: Sequence[str]) -> None:
        """See ``PublishingPort``."""
        with self._open_client() as client:
            RucioOutputs(client, self._name, self._rses).check(scope, dataset, storages)

    def publish(
        self,
        scope: str,
        dataset: str,
        files: Sequence[OutputFile],
        rule: ReplicationRule | None,
        closed: bool = False,
    ) -> Mapping[str, str]:
        """See ``PublishingPort``."""
        with self._open_client() as client:
            outputs = RucioOutputs(client, self._name, self._rses)
            outputs.make(scope, dataset)
            refused = outputs.register(scope, files)
            outputs.attach(scope, dataset, [file.name for file in files if file.name not in refused])
            if rule is not None:
                outputs.keep(scope, dataset, rule)
            if closed:
                outputs.close(scope, dataset)
        return refused

    @contextmanager
    def _open_client(self) -> "Iterator[Client]":
        """Yield a client. Raises CatalogueError for the client's errors."""
        options = self._options
        try:
            # Each call has its own folder: other users can leave a token in the client's default one.
            with TemporaryDirectory(prefix="pilotage-rucio-") as folder:
                yield _client_class(folder)(
                    rucio_host=options.url,
                    auth_host=options.auth_url or options.url,
                    account=options.account,
                    auth_type=options.auth_type,
                    creds=options.credentials,
                    ca_cert=options.ca or None,
                    timeout=CALL_TIMEOUT,
                    user_agent="pilotage",
                    vo=options.vo or None,
                )
        except (RucioException, RequestException, OSError) as error:
            text = " ".join(str(error).split())[:300]
            raise CatalogueError(f"the catalogue {self._name} ({options.url}): {text}") from error

    def _lying(self, replicas: Iterator[Mapping[str, Any]]) -> list[FoundFile]:
        """Return files with their replicas at storages of the federation. Raises LookupError for too many."""
        files = [self._file(replica) for replica in islice(replicas, MOST_FOUND + 1)]
        if len(files) > MOST_FOUND:
            raise LookupError(f"it has more than {MOST_FOUND} files; name them in parts")
        return files

    def _file(self, replica: Mapping[str, Any]) -> FoundFile:
        """Return the file of a record. Raises LookupError if no storage of the federation holds it."""
        name, paths = replica["name"], self._paths(replica["rses"])
        if not paths:
            raise LookupError(f"{replica['scope']}:{name} {self._mismatch(replica['rses'])}")
        document = {
            "name": name,
            "scope": replica["scope"],
            "size": replica["bytes"],
            "checksum": _checksum(replica),
            "replicas": sorted(paths),
        }
        try:
            file = from_document(InputFile, document)
        except ValidationError as error:
            fault = error.errors()[0]
            raise LookupError(f"{replica['scope']}:{name} cannot be an input: {fault['msg']}") from None
        return FoundFile(file=file, paths={storage: path for storage, path in paths.items() if path != name})

    def _paths(self, addresses: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """Return the path below each storage of the federation that holds a file."""
        paths: dict[str, str] = {}
        for rse in sorted(addresses.keys() & self._rses.keys()):
            storage, prefix = self._rses[rse]
            if below := next(filter(None, (path_below(address, prefix) for address in addresses[rse])), ""):
                paths[storage] = below
        return paths

    def _mismatch(self, addresses: Mapping[str, Sequence[str]]) -> str:
        """Return why none of a file's addresses is at a storage of the federation."""
        for rse in sorted(addresses.keys() & self._rses.keys()):
            places = ", ".join(addresses[rse][:3]) or "no address"
            return f"is at {rse} as {places[:300]}, where the federation expects {self._rses[rse][1]}..."
        names = ", ".join(sorted(addresses)[:10]) or "none that is available"
        return (
            f"is at {names}; the catalogue {self._name} maps {', '.join(sorted(self._rses))} "
            "to storages of this federation"
        )


def _client_class(folder: str) -> type[Client]:
    """Return the client that keeps its tokens in a folder."""
    return type("PrivateClient", (Client,), {"TOKEN_PATH_PREFIX": f"{folder}/"})


def _widened(glob: str) -> str:
    """Return a pattern that matches at least what ``glob`` matches: Rucio only knows a star for any text."""
    text, bracket, _ = glob.partition("[")
    return re.sub(r"\*+/?\**|\?+", "*", text) + ("*" if bracket else "")


def _checksum(replica: Mapping[str, Any]) -> str:
    checksums = (
        plain_checksum(f"{kind}:{replica[kind]}") for kind in ("adler32", "md5") if replica.get(kind)
    )
    return next((str(checksum) for checksum in checksums if checksum), "")
