"""The page of dependencies: versions, licences, maintainers and known advisories.

Versions come from ``requirements.lock``, licences and authors from the installed packages. The advisories
were collected by hand: ``make audit`` asks for newer ones where it reaches a database.
"""

import re
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from generators.markdown import table

FOR_CONTRIBUTORS = {"dev", "docs"}
"""Extras that no user installs."""

LICENCES = (
    "Apache",
    "BSD",
    "MIT",
    "ISC",
    "PSF",
    "Python Software",
    "MPL",
    "Mozilla",
    "LGPL",
    "Zlib",
    "OSI Approved",
)
"""Parts of the licences that a package of Apache 2.0 may depend on."""

UNTOLD = {"asyncssh": "EPL-2.0 OR GPL-2.0-or-later"}
"""Licences of packages whose metadata name none."""

EXPOSED = {
    "uvicorn": "serves HTTP to everybody who reaches the port",
    "httptools": "parses the heads of requests",
    "starlette": "routes requests before a token is checked",
    "fastapi": "reads bodies of people with a token",
    "pydantic-core": "parses JSON of people and pilots",
    "pyyaml": "parses federations and tasks; only its events are read, without tags and aliases",
    "jinja2": "writes the page; templates are Pilotage's own",
    "markupsafe": "escapes text in the page",
    "cryptography": "encrypts secrets of payloads, reads certificates",
    "sqlalchemy": "writes statements; values are always bound",
    "psycopg": "speaks to the database",
    "requests": "reads web storages, FTS and batch systems",
    "urllib3": "the same, below requests",
    "httpx": "the client of the API, and webhooks",
    "h11": "parses answers that the client gets",
    "apprise": "sends notifications to addresses of people",
    "asyncssh": "opens SSH and SFTP to clusters and storages",
    "aiohttp": "speaks to Kubernetes",
    "xrootd": "reads XRootD storages, in a process of its own",
}
"""Packages that read bytes of other people, and where."""

FIXED_IN = {
    "aiohttp": ("CVE-2025-53643", "3.12.14"),
    "asyncssh": ("CVE-2023-48795", "2.14.2"),
    "certifi": ("CVE-2024-39689", "2024.7.4"),
    "cryptography": ("CVE-2024-12797", "44.0.1"),
    "fastapi": ("CVE-2024-24762", "0.109.1"),
    "fonttools": ("CVE-2025-66034", "4.60.2"),
    "h11": ("CVE-2025-43859", "0.16.0"),
    "httpx": ("CVE-2021-41945", "0.23.0"),
    "idna": ("CVE-2024-3651", "3.7"),
    "jinja2": ("CVE-2025-27516", "3.1.6"),
    "mako": ("CVE-2022-40023", "1.2.2"),
    "oauthlib": ("CVE-2022-36087", "3.2.1"),
    "pillow": ("CVE-2025-48379", "11.3.0"),
    "pydantic": ("CVE-2024-3772", "2.4.0"),
    "pygments": ("CVE-2021-27291", "2.7.4"),
    "pyyaml": ("CVE-2020-14343", "5.4"),
    "requests": ("CVE-2024-47081", "2.32.4"),
    "sqlalchemy": ("CVE-2019-7164", "1.3.0"),
    "starlette": ("CVE-2025-62727", "0.49.1"),
    "urllib3": ("CVE-2025-66471", "2.6.0"),
    "uvicorn": ("CVE-2020-7695", "0.11.7"),
}
"""The last advisory that its reviewers knew of each package, and the version that has the fix."""

_PYTHON = {"python_version": "3.11", "python_full_version": "3.11.0"}
"""The page is that of the oldest Python, on whichever it is written."""

LOCK = Path(__file__).parents[2] / "requirements.lock"

_LOCKED = re.compile(r"^([a-z0-9-]+)==([^ ;\\]+)", re.MULTILINE)


def locked() -> dict[str, str]:
    """Return the versions of the lock, by name; of several, for different Pythons, the lowest."""
    return dict(sorted(_LOCKED.findall(LOCK.read_text()), key=lambda one: Version(one[1]), reverse=True))


def installed_at_users() -> dict[str, set[str]]:
    """Return what the base and the extras bring, and which packages ask for each."""
    found: dict[str, set[str]] = {}
    extras = set(distribution("pilotage").metadata.get_all("Provides-Extra") or ()) - FOR_CONTRIBUTORS
    todo, done = [("pilotage", extra) for extra in ("", *extras)], set[tuple[str, str]]()
    while todo:
        name, extra = todo.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        for text in distribution(name).requires or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate(_PYTHON | {"extra": extra}):
                needed = canonicalize_name(wanted.name)
                found.setdefault(needed, set()).add(name)
                todo += [(needed, one) for one in ("", *wanted.extras)]
    return found


def faults() -> Iterator[str]:
    """Yield each version of the lock that an advisory is about, and each licence that does not fit."""
    versions = locked()
    for name, (advisory, fixed) in FIXED_IN.items():
        if Version(versions[name]) < Version(fixed):
            yield f"{name} {versions[name]}: {advisory} is fixed in {fixed}"
    for name in sorted(installed_at_users()):
        if not any(part in licence(distribution(name)) for part in (*LICENCES, *UNTOLD.values())):
            yield f"{name}: is its licence {licence(distribution(name))!r} one that Apache 2.0 may depend on?"


def licence(package: Distribution) -> str:
    """Return the licence that a package names, in one line."""
    told = package.metadata
    classes = [one.rpartition(" :: ")[2] for one in told.get_all("Classifier") or () if "License ::" in one]
    text = _first(package, "License").strip().partition("\n")[0]
    found = _first(package, "License-Expression") or " or ".join(classes) or (text if len(text) < 60 else "")
    return UNTOLD.get(canonicalize_name(told["Name"]), found)


def dependencies() -> str:
    """Return the page."""
    versions, needed = locked(), installed_at_users()
    return (
        "# Dependencies\n\n"
        f"An installation with every extra has these {len(needed)} packages. `requirements.lock` pins them "
        "with hashes. Packages of the `dev` extra are pinned there too, and reach no user.\n\n"
        "`make audit` compares the lock with a database of advisories if it reaches one. It always checks "
        "that no version is below a known fix, and that Apache 2.0 may depend on every licence. psycopg and "
        "XRootD are LGPL: Pilotage only imports them.\n\n"
        "## Packages that read other people's bytes\n\n"
        + table(
            ("package", "what it does", "last advisory known", "fixed in"),
            [(name, text, *FIXED_IN.get(name, ("none", ""))) for name, text in EXPOSED.items()],
        )
        + "\n## All packages\n\n"
        + table(
            ("package", "version", "licence", "maintained by", "for"),
            [
                (name, versions[name], licence(distribution(name)), _maintainer(name), ", ".join(sorted(by)))
                for name, by in sorted(needed.items())
            ],
        )
    )


def _first(package: Distribution, field: str) -> str:
    return next(iter(package.metadata.get_all(field) or ()), "")


def _maintainer(name: str) -> str:
    fields = ("Author", "Author-email", "Maintainer-email")
    text = next(filter(None, (_first(distribution(name), field) for field in fields)), "not told")
    people = [one.strip().strip('"') for one in re.sub(r"\s*<[^>]*>", "", text).split(",")]
    shown = [one for one in people if one][:2]
    return (" and ".join(shown) or "not told") + (" and others" if len(people) > 2 else "")
