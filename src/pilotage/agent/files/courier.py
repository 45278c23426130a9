"""Results that other pilots left in the spool: this pilot delivers the ones that its server asks for (P7)."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..client import GivenUpError, PilotClient, RefusedError, UnreachableError
from ..machine import now
from ..node import Resources
from ..parsing import WireError, parse
from ..payload.attempt import Attempt, AttemptFailedError, legal
from ..payload.trees import entries, remove_tree
from ..wire import Work
from . import transfer
from .file_access import StorageRoutes
from .leaving import BLOCK
from .spool_wire import MANIFEST, CourierOrder, LeftFile, LeftResults, SealedManifest
from .transfer import open_output

log = logging.getLogger(__name__)

LOOK_EVERY = 60.0
"""Seconds between two looks into the spool."""

END_WITHIN = 2.0
"""Seconds in which it ends after ``stop``."""

AT_ONCE = 10
"""Most attempts that one look asks about."""

LARGEST = 2_000_000
"""Most bytes of a manifest."""


class Courier:
    """Delivers one attempt of the spool after another, in its own task, while it ``may_deliver``."""

    def __init__(self, resources: Resources, client: PilotClient, may_deliver: Callable[[], bool]) -> None:
        self._resources, self._client, self._may_deliver = resources, client, may_deliver
        self._routes = StorageRoutes(client)
        self._next = 0.0
        self._task: asyncio.Task[None] | None = None
        self._place = resources.directory / "left"

    @property
    def is_busy(self) -> bool:
        """Return whether it delivers something."""
        return self._task is not None and not self._task.done()

    def look(self) -> None:
        """Look into the spool, if it is time."""
        if self._resources.spool and not self.is_busy and now() >= self._next:
            self._next = now() + LOOK_EVERY
            self._task = asyncio.create_task(self._deliver_all(self._resources.spool))

    async def stop(self) -> None:
        """End. The rest stays in the spool."""
        if self._task:
            # It removes its copy, unless a call or a storage hangs.
            await asyncio.wait({self._task}, timeout=END_WITHIN)
            self._task.cancel()

    async def _deliver_all(self, spool: Path) -> None:
        loop = asyncio.get_running_loop()
        try:
            folders = await loop.run_in_executor(None, lambda: [*_attempt_folders(spool)])
        except OSError as error:
            log.warning("no results of other pilots are delivered now: %s", error)
            return
        # Any of them: another pilot may have to deliver the first ones.
        for folder in random.sample(folders, min(AT_ONCE, len(folders))):
            try:
                if self._may_deliver():
                    await self._deliver(folder, spool)
            except (OSError, WireError, ValueError, AttemptFailedError, RefusedError) as error:
                log.warning("%s is not delivered: %s", folder, error)
            except (UnreachableError, GivenUpError) as error:
                log.warning("%s is not delivered now: %s", folder, error)
                return

    async def _deliver(self, folder: Path, spool: Path) -> None:
        with (folder / MANIFEST).open("rb") as file:
            seals, _, text = file.read(LARGEST).partition(b"\n")
        place = str(folder.relative_to(spool.parents[2]))
        sealed = SealedManifest(place, self._resources.spool_days, seals.decode(), text.decode())
        answer = await self._client.ask_about_results(sealed)
        if answer.order and answer.storage:
            results = parse(LeftResults, text)
            for number, output in enumerate(results.files):
                await self._moved(self._store, answer, folder / str(number), output)
            await self._client.delivered(answer.order.job, answer.order.attempt)
            log.info("%s is delivered", folder)
        elif not answer.unwanted:
            return
        await self._moved(remove_tree, str(folder))

    def _store(self, answer: CourierOrder, path: Path, output: LeftFile) -> None:
        """Store one output, if it matches its pilot's manifest. Blocks."""
        assert answer.order
        assert answer.storage
        storage = answer.storage
        work = Work(0, (), storage_url=storage.url, storage_options=storage.options, asks=storage.asks)
        copy = self._place / legal("output", output.name, deep=True)
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            # Others of the account may write to the spool, so check and store a copy.
            _copy(path, copy, output)
            transfer.store(
                self._routes,
                Attempt(work, answer.order),
                output.name,
                self._place,
                lambda: not self._may_deliver(),
            )
        finally:
            shutil.rmtree(self._place, ignore_errors=True)

    async def _moved(self, function: Callable[..., None], *arguments: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


def _attempt_folders(spool: Path) -> Iterator[Path]:
    """Yield the folders of attempts that other pilots left. A folder with a manifest is complete."""
    for pilot in [pilot for pilot in entries(spool.parent) if pilot != spool]:
        try:
            folders = [folder for folder in entries(pilot) if not folder.name.startswith(".")]
            yield from [folder for folder in folders if (folder / MANIFEST).exists()]
        except OSError as error:
            # Somebody else's folder, or one that another machine has just removed: it stops no others.
            log.warning("the results in %s cannot be read: %s", pilot, error)


def _copy(path: Path, target: Path, output: LeftFile) -> None:
    checksum, size = hashlib.sha256(), 0
    with open_output(path.parent, path.name) as source, target.open("xb") as copy:
        while data := source.read(BLOCK):
            size += len(data)
            if size > output.size:
                break
            checksum.update(data)
            copy.write(data)
    if (size, checksum.hexdigest()) != (output.size, output.sha256):
        raise AttemptFailedError(f"output {output.name} is not what its pilot left")
