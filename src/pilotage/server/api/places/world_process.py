"""Read the world in a separate process: a million jobs would block the server, and enlarge it for good.

The process reads the store's address from standard input, because it may hold a password.
"""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from tempfile import TemporaryFile
from typing import IO

from fastapi import HTTPException

from pilotage.flow.runtime import Runtime
from pilotage.model.documents.serialization import json_pieces, to_json
from pilotage.model.documents.world import World
from pilotage.model.rules.options import without_options
from pilotage.model.rules.webhooks import without_webhooks
from pilotage.store import Store

PIECE = 1 << 18
"""Bytes per piece of the answer."""

NICENESS = 5
"""Niceness of the process: the server's work goes first, but a person waits for the answer.

With 19 the process took minutes to start on a busy machine.
"""

OPTIONS = "options"
"""Tells the process to write options too."""

_ONE = threading.Lock()


def pieces(runtime: Runtime, *, with_options: bool) -> Generator[bytes]:
    """Yield the current world as JSON in pieces.

    Raises HTTPException if another one is being read, or if the process fails before the first piece.
    """
    if runtime.store.database.is_in_memory:
        world = runtime.store.snapshots.whole(runtime.clock(), runtime.seeds())
        return _at_once(to_json(_shown(world, with_options=with_options)))
    if not _ONE.acquire(blocking=False):
        raise HTTPException(503, "another world is being read", headers={"Retry-After": "5"})
    written = _written(runtime, with_options=with_options)
    try:
        # The first piece shows that there is a world. The generator of the pieces frees the lock.
        return _together(next(written), written)
    except (StopIteration, OSError) as error:
        raise HTTPException(
            500, f"the world could not be read: {error}; the server's log says more"
        ) from error


def _at_once(text: bytes) -> Generator[bytes]:
    yield text


def _written(runtime: Runtime, *, with_options: bool) -> Generator[bytes]:
    """Run the process, which ends with this generator, even if the client disconnects."""
    try:
        command = [sys.executable, "-c", f"from {__name__} import main; main()"]
        command += [repr(runtime.clock()), str(runtime.seeds()), *([OPTIONS] if with_options else [])]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            if process.stdin is None or process.stdout is None:
                raise OSError("the process has no standard input and output")
            try:
                address = runtime.store.database.engine.url.render_as_string(hide_password=False)
                process.stdin.write(address.encode())
                process.stdin.close()
                while piece := process.stdout.read(PIECE):
                    yield piece
                if process.wait() != 0:
                    raise OSError(f"the process that reads it ended with {process.returncode}")
            finally:
                process.kill()
    finally:
        _ONE.release()


def _together(first: bytes, rest: Generator[bytes]) -> Generator[bytes]:
    yield first
    yield from rest


def main() -> None:
    """Read the address of a store from standard input, and write the store's world."""
    os.nice(NICENESS)
    store = Store.open(sys.stdin.read())
    keep = partial(_in_a_file, OPTIONS in sys.argv[3:])
    try:
        file = store.snapshots.use_whole(float(sys.argv[1]), int(sys.argv[2]), keep)
    finally:
        store.close()
    with file:
        shutil.copyfileobj(file, sys.stdout.buffer, PIECE)


def _shown(world: World, *, with_options: bool) -> World:
    """Return the world without webhooks, and also without options."""
    federation = world.federation if with_options else without_options(world.federation)
    return replace(without_webhooks(world), federation=federation)


def _in_a_file(with_options: bool, world: World) -> IO[bytes]:
    """Return a file with the world, so that the store's transaction does not wait for a slow client."""
    file = TemporaryFile()  # noqa: SIM115 -- the caller closes it
    file.writelines(json_pieces(_shown(world, with_options=with_options)))
    file.seek(0)
    return file
