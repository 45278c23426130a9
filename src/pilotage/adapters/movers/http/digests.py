"""Checksums in web servers' header ``Digest`` (RFC 3230)."""

import base64
import binascii

from pilotage.adapters.movers.copies.checksums import DIGITS, checksum_of

DIGESTS = {"adler32": "adler32", "md5": "md5", "sha256": "sha-256"}
"""Kinds of checksums by their names in HTTP."""


def digest(header: str, kind: str) -> str:
    """Return a checksum as ``md5:...``; empty if the header has none of this kind.

    adler32 is in hexadecimal, the others in base64; some servers send all in hexadecimal.
    """
    for part in header.split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() != DIGESTS[kind]:
            continue
        hexadecimal = kind == "adler32" or len(value) == DIGITS[kind]
        if found := checksum_of(kind, value if hexadecimal else _hexadecimal(value)):
            return found
    return ""


def _hexadecimal(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).hex()
    except binascii.Error:
        return ""
