"""Submits tasks, one after the other, until a file is there; then all of them finish. Argument: the file."""

import sys
import time
from pathlib import Path

from pilotage.client import Client

with Client() as client:
    tasks = [client.submit(name="long", command=["sleep", "15"], scouts=0)]
    while not Path(sys.argv[1]).exists():
        tasks.append(client.submit(name=f"short-{len(tasks)}", command=["true"], scouts=0))
        print("submitted", file=sys.stderr, flush=True)
        time.sleep(2)
    states = {task.state for task in client.wait([task.id for task in tasks], timeout=900)}
    print("submissions", *states, flush=True)
