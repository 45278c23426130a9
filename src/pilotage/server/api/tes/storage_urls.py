"""URLs of TES tasks: the storage of the federation that has a file, and its name there."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from posixpath import normpath
from urllib.parse import unquote, urlsplit

from pilotage.model.records.federation import Storage
from pilotage.model.records.inputs import InputPattern
from pilotage.model.values.paths import FILE_NAMES, is_file_name
from pilotage.model.values.urls import WEB, hidden, without_password

CATALOGUE = "pilotage"
"""The scheme of files in the catalogue: ``pilotage://SCOPE/NAME``."""

MOST_NAMED = 10


class WrongUrlError(ValueError):
    """A URL names no file here; the message says what would be right."""


@dataclass(frozen=True, slots=True)
class UrlPlace:
    """The storages that have a file or folder, all at the same URL, and its path below that."""

    storages: tuple[str, ...]
    name: str


def place_of(url: str, storages: Iterable[Storage]) -> UrlPlace:
    """Return where a URL leads, by the storages with the longest URL around it. Raises WrongUrlError."""
    candidates = list(_bases(storages))
    wanted = _normal(url)
    if without_password(url) != url:
        raise WrongUrlError(
            "has a password, which tasks keep and show; leave it out: storages have their own"
        )
    bases = [base for base, _ in candidates if wanted.startswith(base)]
    if not bases:
        known = sorted({hidden(base) for base, _ in candidates})
        more = f" and {len(known) - MOST_NAMED} more" if len(known) > MOST_NAMED else ""
        raise WrongUrlError(
            f"{hidden(url)[:200]!r} lies below no storage of the federation; storages are at "
            f"{', '.join(known[:MOST_NAMED])}{more}"
        )
    base = max(bases, key=len)
    name = wanted.removeprefix(base).rstrip("/")
    if not is_file_name(name):
        raise WrongUrlError(f"{name[:200]!r} is no name of a file below {hidden(base)}: {FILE_NAMES}")
    return UrlPlace(tuple(name for other, name in candidates if other == base), name)


def pattern_of(url: str, storages: Iterable[Storage], *, is_folder: bool) -> tuple[InputPattern, str]:
    """Return the input that a URL names, and its path below the job's inputs. Raises WrongUrlError."""
    if url.startswith(f"{CATALOGUE}://"):
        scope, _, name = url.removeprefix(f"{CATALOGUE}://").partition("/")
        place = UrlPlace((), name.rstrip("/"))
        if not scope or not is_file_name(place.name):
            raise WrongUrlError("is no file of the catalogue; give pilotage://SCOPE/NAME")
    else:
        scope, place = "", place_of(url, storages)
    glob = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in place.name)
    glob = f"{glob}/**" if is_folder else glob
    if len(glob) > MOST_CHARACTERS:
        raise WrongUrlError(f"names a path of more than {MOST_CHARACTERS} characters; give a shorter one")
    return InputPattern(storages=place.storages, glob=glob, scope=scope), place.name


MOST_CHARACTERS = 500
"""Most characters of the pattern of an input."""


def _bases(storages: Iterable[Storage]) -> Iterator[tuple[str, str]]:
    """Yield the URL of each storage in one spelling, with its name. One that has no such URL is left out."""
    for storage in storages:
        if base := _base(storage.url):
            yield base, storage.name


@lru_cache(10_000)
def _base(url: str) -> str:
    """Return a storage's URL in one spelling, with ``/`` at its end; empty if it has none.

    A task has up to 2000 URLs, each beside all storages: reading those again each time took a minute.
    """
    with suppress(WrongUrlError):
        return _normal(url).rstrip("/") + "/"
    return ""


def _normal(url: str) -> str:
    """Return a URL in one spelling: ``/data`` is ``file:///data``, and steps in paths are gone."""
    if url.startswith("/"):
        url = f"file://{url}"
    try:
        parts = urlsplit(url)
    except ValueError:
        raise WrongUrlError("is no URL; give one like s3://bucket/reads.fastq") from None
    if not parts.scheme or not (parts.netloc or parts.path.startswith("/")):
        raise WrongUrlError(f"{hidden(url)[:200]!r} is no URL; give one like s3://bucket/reads.fastq")
    if parts.scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise WrongUrlError(f"names the host {parts.netloc[:80]!r}; give file:///PATH")
        path = (
            url.removeprefix("file:").removeprefix("//localhost")
            if parts.netloc
            else url.removeprefix("file:")
        )
        return f"file:///{_plain(path)}"
    if parts.query or parts.fragment:
        raise WrongUrlError("has a query or a fragment, which no file of a storage has; leave it out")
    path = unquote(parts.path) if parts.scheme in WEB else parts.path
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/{_plain(path)}"


def _plain(path: str) -> str:
    if ".." in path.split("/"):
        raise WrongUrlError("has .. in its path; give the path without it")
    return normpath(f"/{path}").lstrip("/")
