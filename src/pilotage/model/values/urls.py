"""URLs that people write: their faults, in words that never repeat a password."""

import re
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import quote

FOLDERS = frozenset({"file", "local", "memory"})
"""Schemes whose URLs are paths: special characters in them may be part of a folder's name."""

WEB = frozenset({"http", "https", "dav", "davs", "webdav", "webdavs"})
"""Schemes whose addresses are percent-encoded."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_BLANK = re.compile(r"\s")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_USER = re.compile(r"(?<=//)[^/?#\s'\"]*@")


def file_url(url: str, path: str) -> str:
    """Return the address of a path below a storage's URL."""
    return f"{url.rstrip('/')}/{path_in_url(url, path)}"


def path_in_url(url: str, path: str) -> str:
    """Return a path as addresses of this URL's scheme have it.

    Web addresses have escapes. All others hold names as they are.
    """
    return quote(path, safe="/:@=~") if url.partition("://")[0] in WEB else path


def url_fault(url: str, schemes: Collection[str] = (), *, base: bool = False) -> str:
    """Return the fault of a URL with one of the ``schemes`` (none: any scheme); empty if it has none.

    A ``base`` has paths appended, so it ends with a path. The words contain no part of the URL that may be
    secret.
    """
    fault = next(_faults(url, schemes), "")
    if not fault and base and url.partition("://")[0] not in FOLDERS and ("?" in url or "#" in url):
        return "has a ? or #, behind which no path can follow; credentials belong into options"
    return fault


def _faults(url: str, schemes: Collection[str]) -> Iterator[str]:
    if _UNPRINTABLE.search(url):
        yield "holds a line end or another control character"
    if url != url.strip():
        yield "begins or ends with a blank"
    scheme, mark, rest = url.partition("://")
    if not mark or (schemes and scheme not in schemes):
        yield f"does not begin with {' or '.join(f'{expected}://' for expected in sorted(schemes)) or 'a scheme://'}"
    if scheme in FOLDERS:
        return
    if _BLANK.search(rest):
        yield "holds a blank, which is written %20"
    if "\\" in rest:
        yield "holds a backslash; folders are set apart by /"
    user, at, host = _authority(rest).rpartition("@")
    if at and (":" in user or scheme in WEB):
        yield "holds a user or password, which everybody could read: credentials belong into options"
    if host:
        yield from _host_faults(host)
    elif scheme in WEB or at:
        yield "names no host"


def _authority(rest: str) -> str:
    """Return the part between ``://`` and a path: user, host and port."""
    return re.split("[/?#]", rest, maxsplit=1)[0]


def _host_faults(place: str) -> Iterator[str]:
    name, _, port = place.partition(":")
    if place.startswith("["):
        name, end, after = place[1:].partition("]")
        if not end:
            yield f"has the address [{name[:60]} without its closing bracket"
        if not _is_address(IPv6Address, name):
            yield f"has the host [{name[:60]}], which is no IPv6 address"
        if after and not after.startswith(":"):
            yield f"has {after[:20]!r} behind its address; write [ADDRESS]:PORT"
        port = after[1:]
    elif place.count(":") > 1:
        yield f"has an IPv6 address without brackets; write [{place[:60]}]"
    else:
        yield from _name_faults(name)
    if place.endswith(":") or (port and not _is_port(port)):
        yield f"has the port {port[:20]!r}; ports are numbers from 1 to 65535"


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536


def _name_faults(name: str) -> Iterator[str]:
    labels = name.removesuffix(".").split(".")
    if not name:
        yield "names no host"
    if labels[-1].isdigit() and not _is_address(IPv4Address, name):
        yield f"has the host {name[:60]!r}, which is no address of four numbers up to 255"
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        yield f"has the host {name[:60]!r}; hosts are of letters, digits and -, in parts set apart by dots"


def _is_address(kind: type[IPv4Address] | type[IPv6Address], text: str) -> bool:
    # A zone (%eth0) means something on one machine only.
    if "%" in text:
        return False
    try:
        kind(text)
    except ValueError:
        return False
    return True


def hidden(text: str) -> str:
    """Return the text without users and passwords in its URLs, safe to show to everybody."""
    return _USER.sub("...@", text) if "@" in text else text


def without_password(url: str) -> str:
    """Return the URL without user and password if it has a password, or a user that may be one."""
    scheme, mark, rest = url.partition("://")
    user, at, _ = _authority(rest).rpartition("@")
    if scheme in FOLDERS or not at or not (":" in user or scheme in WEB):
        return url
    return scheme + mark + rest[len(user) + 1 :]
