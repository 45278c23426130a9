"""Files of credentials: when the certificate or token in one ends."""

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from pilotage.model.values.phrases import moment

LARGEST = 1 << 20
"""Bytes of a file of credentials that are read."""


def fault(options: Mapping[str, Any], now: float) -> str:
    """Return which file in a credential's options cannot be used now, and what to do; empty if all can."""
    for name, value in options.items():
        if not name.endswith("_file") or not value:
            continue
        path = Path(str(value)).expanduser()
        try:
            status = path.stat()
            end = _end_in(path, status.st_mtime_ns, status.st_size)
        except OSError as error:
            return f"its {name} {path}: {error.strerror}; put it there, readable by the server's user"
        if end is not None and end <= now:
            return f"its {name} {path} ended {moment(end)}: renew this file, no restart is needed"
    return ""


@lru_cache(maxsize=4096)
def _end_in(path: Path, _modified: int, _size: int) -> float | None:
    """Return ``end_of`` a file in one of its versions."""
    with path.open("rb") as file:
        return end_of(file.read(LARGEST))


def end_of(content: bytes) -> float | None:
    """Return when the first certificate of a PEM file ends, or a JSON web token, in s since 1970 UTC; None if
    it is neither."""
    if b"-----BEGIN CERTIFICATE-----" in content:
        from cryptography import x509

        with suppress(ValueError):
            # The first is the bearer's; its authorities' follow.
            return x509.load_pem_x509_certificates(content)[0].not_valid_after_utc.timestamp()
    elif content.count(b".") == 2 and len(content) < 20_000:
        payload = content.strip().split(b".")[1]
        with suppress(ValueError, TypeError):
            claims = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
            if isinstance(claims, dict) and isinstance(claims.get("exp"), (int, float)):
                return float(claims["exp"])
    return None
