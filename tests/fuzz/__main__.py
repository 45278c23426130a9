"""``python -m tests.fuzz --minutes 5``: every answer is one that the OpenAPI document describes.

It starts a server on loopback with SQLite, then with PostgreSQL. Each is asked in each role of people, as a
pilot of its own routes, as a site and without a token. schemathesis makes single requests and sequences of
them. It exits with 1 after a fault, and prints each as a curl command.
"""

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from pilotage.model.values.identity import PERSON_ROLES, Credential, Identity, Role
from pilotage.store import Store
from pilotage.testing.stores import new_pilot
from tests import postgresql
from tests.acceptance.house import House
from tests.conftest import locked_port
from tests.waiting import PATIENCE, wait_for

from .world import LOOPS, fill, write_federation

CALLERS: dict[str, Role | None] = {
    **{role: role for role in PERSON_ROLES},
    "pilot": "pilot",
    "site": "site",
    "nobody": None,
}

NAMES: dict[Role, str] = {"site": "north", "operator": "olga", "manager": "mona", "monitor": "max"}
"""Names of callers; the others are ``alice``."""

ROUTES = {
    "pilot": ["--include-path-regex", "^/api/v1/pilot/", "--exclude-path", "/api/v1/pilot/end"],
    "site": ["--include-path-regex", "^/api/v1/sites"],
}
"""What callers ask for who may do little else. A pilot that ended would be refused everywhere."""

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)

OTHER_TOKENS = 1000
"""Tokens that are made before the caller's. Fuzzed requests revoke tokens of small numbers."""

LEAST_SECONDS = 10


def main() -> int:
    """Ask both servers as each caller; return the exit code."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    options.add_argument("--minutes", type=float, default=5, help="how long, in all (default: 5)")
    options.add_argument("--seed", type=int, help="the seed of the requests (default: a random one)")
    options.add_argument("--only", default="", help="such as sqlite,operator (default: everything)")
    told = options.parse_args()
    only = {word.strip() for word in told.only.split(",") if word.strip()}
    if unknown := only - {"sqlite", "postgresql", *CALLERS}:
        options.error(f"there is no {min(unknown)!r}; known are sqlite, postgresql, {', '.join(CALLERS)}")
    databases = [one for one in ("sqlite", "postgresql") if one in only or not only - set(CALLERS)]
    callers = [one for one in CALLERS if one in only or not only & set(CALLERS)]
    seed = random.SystemRandom().randrange(10**6) if told.seed is None else told.seed
    seconds = max(LEAST_SECONDS, int(told.minutes * 60 / len(databases) / len(callers)))
    failed = []
    for database in databases:
        with running(database) as house:
            for caller in callers:
                print(f"\n=== {database}, {caller}, seed {seed}: {seconds} s", flush=True)
                if not asked(house, caller, seconds, seed):
                    print(house.last_words())
                    failed.append(f"{database},{caller}")
    for one in failed:
        print(f"again: make fuzz MINUTES={seconds / 60:.2g} SEED={seed} ONLY={one}")
    return bool(failed)


@contextlib.contextmanager
def running(database: str) -> Iterator[House]:
    """Run a server on a new store with some records of every kind."""
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pilotage-fuzz-")))
        place.chmod(0o755)  # for the user of PostgreSQL's server
        (place / "home").mkdir()
        store = f"sqlite:///{place}/store.db"
        if database == "postgresql":
            server = postgresql.start(place / "postgresql")
            stack.callback(server.cleanup)
            store = server.get_uri().replace("postgresql:", "postgresql+psycopg:", 1)
        port = stack.enter_context(locked_port())
        parts = {"all": (str(write_federation(place)), "--only", ",".join(LOOPS))}
        house = House(place / "home", store, port, place / "federation.yaml", parts)
        stack.callback(lambda: print(house.last_words()) if house.running["all"].poll() else None)
        stack.callback(house.stop)
        house.environment = {"PILOTAGE_TES": "containers"}
        house.start("all")
        wait_for(lambda: house.running["all"].poll() is not None or is_there(house), "the server answers")
        yield house


def is_there(house: House) -> bool:
    """Return whether the server answers."""
    with contextlib.suppress(httpx.TransportError, FileNotFoundError):
        return house.ask("GET", "/health/live").is_success
    return False


def asked(house: House, caller: str, seconds: int, seed: int) -> bool:
    """Ask a server as a caller. Return whether all answers were as described."""
    document = house.home / "openapi.json"
    told = house.ask("GET", "/openapi.json", timeout=PATIENCE).json()
    document.write_text(json.dumps(_without_tuples(told)))
    command = [
        *(str(Path(sys.executable).with_name("schemathesis")), "run"),
        *(str(document), "--url", house.url),
        *("--phases", "coverage,fuzzing,stateful", "--checks", ",".join(CHECKS)),
        *("--max-time", str(seconds), "--seed", str(seed), "--request-timeout", "60"),
        *("--generation-database", "none", "--no-shrink", "--suppress-health-check", "all"),
        *("--warnings", "off", "--continue-on-failure", "--output-sanitize", "false", "--no-color"),
    ]
    if role := CALLERS[caller]:
        header = f"Bearer {_token(house.store, role)}"
        if role in PERSON_ROLES and role != "monitor":
            fill(house.url, {"Authorization": header})
        command += ["--header", f"Authorization:{header}", *ROUTES.get(caller, [])]
    environment = os.environ | {"COLUMNS": "110"}
    # It looks for settings in the working directory.
    return subprocess.run(command, cwd=house.home, env=environment, check=False).returncode == 0


def _without_tuples(schema: Any) -> Any:
    """Return a document whose tuples are lists: schemathesis validates answers by a draft without tuples."""
    if isinstance(schema, list):
        return [_without_tuples(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _without_tuples(one) for name, one in schema.items()}
    kinds = found.pop("prefixItems", None)
    return {**found, "items": {"anyOf": kinds}} if kinds else found


def _token(url: str, role: Role) -> str:
    """Make a token whose number no request guesses."""
    store = Store.open(url)
    try:
        for _ in range(OTHER_TOKENS):
            store.tokens.create(Credential(role="user", identity=Identity(name="other")))
        name = NAMES.get(role, "alice")
        identity = Identity(name=name, vo="" if role == "site" else "atlas")
        pilot = (
            new_pilot(store, "north-queue", store.clock(), owner=identity, requirements="")
            if role == "pilot"
            else None
        )
        sites = frozenset({"north"} if role == "site-admin" else ())
        return store.tokens.create(Credential(role=role, identity=identity, pilot=pilot, sites=sites))
    finally:
        store.close()


if __name__ == "__main__":
    sys.exit(main())
