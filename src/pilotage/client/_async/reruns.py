"""Run a task again by its manifest, and compare what the run reads and makes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilotage.client.errors import Fault, Refused
from pilotage.client.records import Record, check_places
from pilotage.client.shapes import COMPARED
from pilotage.client.subjects import RequestSubject

from .files import AsyncCatalogueRequests
from .records import AsyncTask
from .tasks import AsyncTaskRequests

if TYPE_CHECKING:
    from pilotage.client.crates import Manifest

FILES_AT_ONCE = 200
"""Files of one comparison: the server looks at each of them."""


class AsyncReruns(AsyncTaskRequests, AsyncCatalogueRequests):
    """Reruns of tasks."""

    async def compare_files(self, files: Sequence[Mapping[str, Any]]) -> list[Record]:
        """Return which files are not as described, each with ``at``, its place in the list, ``kind`` and
        ``text``.

        The kind is ``changed``, ``gone``, or ``unread`` where a storage does not answer. A changed file has
        its present ``size`` and ``checksum``.
        """
        differences = []
        for start in range(0, len(files), FILES_AT_ONCE):
            part = [dict(file) for file in files[start : start + FILES_AT_ONCE]]
            answer = await self._posted("/files/compare", COMPARED, None, {"files": part})
            check_places((found["at"] for found in answer["differences"]), len(part))
            differences += [Record({**found, "at": start + found["at"]}) for found in answer["differences"]]
        return differences

    async def rerun(
        self,
        manifest: Mapping[str, Any] | Record | str | Path,
        *,
        changed: bool = False,
        secrets: bool = False,
        key: str = "",
    ) -> AsyncTask:
        """Submit the task of a manifest again: its document, its file, or its folder. Return the new task.

        Raises ``Refused`` with the inputs that are gone or have changed; with ``changed``, changed ones are
        read as they are now. Raises ``Refused`` if the task reads secrets of the caller, unless ``secrets``
        allows it. Raises ``BadManifest``.
        """
        from pilotage.client.crates import Manifest  # only who reads one loads it

        read = Manifest.of(manifest)
        document = await self.rerun_document(read, changed=changed, secrets=secrets)
        return await self.submit(document, key=key)

    async def rerun_document(
        self, manifest: "Manifest", *, changed: bool = False, secrets: bool = False
    ) -> dict[str, Any]:
        """Return what ``rerun`` submits. Raises as it does."""
        if manifest.secrets and not secrets:
            names = ", ".join(manifest.secrets)
            message = f"the manifest's command reads secrets of yours: {names}"
            raise Refused(message, (Fault("secrets", message),))
        files = manifest.files
        differences = await self.compare_files(files) if files else []
        stops = [found for found in differences if found["kind"] == "gone" or not changed]
        faults = tuple(
            Fault("inputs", f"{files[found['at']].get('name')}: {found['text']}")
            for found in stops
            if found["kind"] != "unread"
        )
        if faults:
            raise Refused("; ".join(fault.message for fault in faults), faults)
        now = {
            found["at"]: {"size": found["size"], "checksum": found["checksum"]}
            for found in differences
            if found["kind"] == "changed"
        }
        return manifest.document_now(now)

    async def compare_outputs(
        self,
        manifest: Mapping[str, Any] | Record | str | Path,
        task: "int | str | RequestSubject | AsyncTask",
    ) -> list[str]:
        """Return which outputs of a task are not as those of a manifest, and how; empty: all are equal."""
        from pilotage.client.crates import Manifest

        return Manifest.of(manifest).differing(await self.outputs(task))
