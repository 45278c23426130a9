"""Outputs in Rucio: their replicas, their datasets, and rules.

Every part may be repeated: Rucio keeps its entries.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

from rucio.client import Client
from rucio.common.exception import (
    DataIdentifierAlreadyExists,
    DataIdentifierNotFound,
    DuplicateRule,
    RSENotFound,
    RucioException,
    UnsupportedOperation,
)

from pilotage.agent.files.web_addresses import server_of
from pilotage.model.records.catalogues import ReplicationRule
from pilotage.model.values.urls import WEB, path_in_url
from pilotage.ports.catalogue import CatalogueError, OutputFile

Rses = Mapping[str, tuple[str, str]]
"""Storages that both sides know by RSE: the federation's name, and the beginning of file addresses there."""


class RucioOutputs:
    """Registers outputs over one connection. Refusals raise the client's exceptions."""

    def __init__(self, client: Client, name: str, rses: Rses) -> None:
        self._client = client
        self._name = name
        self._rses = rses
        self._deterministic: dict[str, bool] = {}

    def check(self, scope: str, dataset: str, storages: Sequence[str]) -> None:
        """Raise LookupError with the obstacle if outputs at these storages could not enter a dataset."""
        if scope not in self._client.list_scopes():
            raise LookupError(f"the catalogue {self._name} has no scope {scope}")
        with suppress(DataIdentifierNotFound):
            self._refuse_others(scope, dataset, self._client.get_did(scope, dataset))
        for storage in storages:
            self._rse_of(storage)

    def make(self, scope: str, dataset: str) -> None:
        """Make a dataset unless it exists. Raises LookupError if the name belongs to something else."""
        try:
            self._client.add_dataset(scope, dataset)
        except DataIdentifierAlreadyExists:
            record = self._client.get_did(scope, dataset)
            if record["type"] != "DATASET":
                self._refuse_others(scope, dataset, record)

    def register(self, scope: str, files: Sequence[OutputFile]) -> dict[str, str]:
        """Add replicas. Return the refused files with their reasons, by name."""
        # Rucio ignores a known name, even with another size or checksum. So ask before, and after.
        refused = self._known_otherwise(scope, files)
        records: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for file in files:
            if file.name in refused:
                continue
            try:
                for rse, record in self._records(scope, file):
                    records[rse].append(record)
            except LookupError as error:
                refused[file.name] = str(error)
        for rse, added in records.items():
            self._client.add_replicas(rse, added)
        return refused | self._lying_otherwise(scope, [item for item in files if item.name not in refused])

    def attach(self, scope: str, dataset: str, names: Sequence[str]) -> None:
        """Make files members of a dataset. Raises LookupError if it is closed and lacks some."""
        if not names:
            return
        dids = [{"scope": scope, "name": name} for name in names]
        attachment = {"scope": scope, "name": dataset, "dids": dids}
        try:
            # Otherwise Rucio refuses all files if one is already attached.
            self._client.attach_dids_to_dids([attachment], ignore_duplicate=True)
        except UnsupportedOperation:
            members = {member["name"] for member in self._client.list_content(scope, dataset)}
            if not members.issuperset(names):
                raise LookupError(f"{scope}:{dataset} is closed in {self._name}") from None

    def keep(self, scope: str, dataset: str, rule: ReplicationRule) -> None:
        """Set a rule for a dataset unless the account has an equal one."""
        dids = [{"scope": scope, "name": dataset}]
        try:
            with suppress(DuplicateRule):
                self._client.add_replication_rule(
                    dids, rule.copies, rule.rse_expression, lifetime=rule.lifetime, comment="Pilotage"
                )
        except RucioException as error:
            text = " ".join(str(error).split())[:300]
            raise CatalogueError(
                f"the catalogue {self._name} sets no rule for {scope}:{dataset}, {rule.copies} copies at "
                f"{rule.rse_expression}: {text}"
            ) from error

    def close(self, scope: str, dataset: str) -> None:
        """Close a dataset unless it is closed already."""
        if self._client.get_did(scope, dataset)["open"]:
            self._client.close(scope, dataset)

    def _refuse_others(self, scope: str, dataset: str, record: Mapping[str, Any]) -> None:
        if record["type"] != "DATASET":
            kind = record["type"].lower()
            raise LookupError(f"{scope}:{dataset} is no dataset in {self._name} but a {kind}")
        if not record["open"]:
            raise LookupError(f"{scope}:{dataset} is closed in {self._name}: name another dataset")

    def _rse_of(self, storage: str) -> tuple[str, str]:
        """Return the RSE that takes outputs at a storage, and the beginning of addresses there."""
        named = [(rse, prefix) for rse, (place, prefix) in self._rses.items() if place == storage]
        if not named:
            raise LookupError(f"the catalogue {self._name} maps no RSE to the storage {storage}")
        for rse, prefix in named:
            if not self._is_deterministic(rse):
                return rse, prefix
        raise LookupError(
            f"the RSE {named[0][0]} of the storage {storage} is deterministic: Rucio would look for outputs "
            "where they do not lie; map an RSE to it that is not, too"
        )

    def _is_deterministic(self, rse: str) -> bool:
        if rse not in self._deterministic:
            try:
                self._deterministic[rse] = bool(self._client.get_rse(rse)["deterministic"])
            except RSENotFound as error:
                raise LookupError(f"the catalogue {self._name} has no RSE {rse}") from error
        return self._deterministic[rse]

    def _records(self, scope: str, file: OutputFile) -> list[tuple[str, dict[str, Any]]]:
        """Return the records of a file for Rucio, by RSE. Raises LookupError if no RSE takes it."""
        kind, _, digits = file.checksum.partition(":")
        if kind not in ("adler32", "md5"):
            raise LookupError(f"its checksum {file.checksum!r} is none that Rucio knows: adler32 or md5")
        record = {"scope": scope, "name": file.name, "bytes": file.size, kind: digits}
        places = [(self._rse_of(storage), path) for storage, path in sorted(file.paths.items())]
        return [
            (rse, {**record, "pfn": f"{prefix}{path_in_url(prefix, path)}"}) for (rse, prefix), path in places
        ]

    def _known_otherwise(self, scope: str, files: Sequence[OutputFile]) -> dict[str, str]:
        """Return the faults of files that Rucio knows with other bytes, by name."""
        if not files:
            return {}
        by_name = {file.name: file for file in files}
        records = self._client.get_metadata_bulk([{"scope": scope, "name": name} for name in by_name])
        faults = (
            (record["name"], self._difference(scope, by_name[record["name"]], record)) for record in records
        )
        return {name: fault for name, fault in faults if fault}

    def _lying_otherwise(self, scope: str, files: Sequence[OutputFile]) -> dict[str, str]:
        """Return the faults of files that Rucio lists differently from their registration."""
        if not files:
            return {}
        dids = [{"scope": scope, "name": file.name} for file in files]
        listed = {record["name"]: record for record in self._client.list_replicas(dids)}
        refused: dict[str, str] = {}
        for file in files:
            replica = listed.get(file.name, {"rses": {}})
            fault = self._difference(scope, file, replica) if file.name in listed else ""
            for storage, path in file.paths.items():
                rse, prefix = self._rse_of(storage)
                if not any(path_below(address, prefix) == path for address in replica["rses"].get(rse, ())):
                    fault = fault or f"{scope}:{file.name} is not at {path} of {rse} in {self._name}"
            if fault:
                refused[file.name] = fault
        return refused

    def _difference(self, scope: str, file: OutputFile, record: Mapping[str, Any]) -> str:
        """Return how a file differs from Rucio's record of its name; empty if it does not."""
        kind, _, digits = file.checksum.partition(":")
        digits_there = (record.get(kind) or digits).lower().zfill(len(digits))
        if record["bytes"] == file.size and digits_there == digits:
            return ""
        return (
            f"{self._name} has another file under {scope}:{file.name}: {record['bytes']} bytes, "
            f"{kind}:{digits_there}, and here {file.size} bytes, {file.checksum}"
        )


def path_below(address: str, prefix: str) -> str:
    """Return the path of an address below a prefix; empty if it is not there.

    The default port, doubled slashes and the host's case make no difference. A web storage's address is
    decoded once. Its query is no part of the path, unless the prefix has one too, as addresses of SRM do.
    """
    if "?" in prefix:
        return address.removeprefix(prefix).lstrip("/") if address.startswith(prefix) else ""
    try:
        place, path = _parts(address)
        root_place, root = _parts(prefix)
    except ValueError:  # a port that is no number
        return ""
    if place != root_place or not path.startswith(root):
        return ""
    below = path.removeprefix(root).lstrip("/")
    return "" if ".." in below.split("/") else below


def _parts(address: str) -> tuple[tuple[str, str, int | None], str]:
    """Return scheme, host and port of an address, and its path. Raises ValueError."""
    parts = urlsplit(address)
    is_web = parts.scheme in WEB
    # Only in web addresses do a question mark and a hash end the path.
    path = unquote(parts.path) if is_web else address.partition("://")[2].partition("/")[2]
    return server_of(address), re.sub(r"/{2,}", "/", f"/{path}")
