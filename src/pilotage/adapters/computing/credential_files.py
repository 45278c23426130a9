"""Files of credentials: when the certificate or token in one ends."""

import base64
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pilotage.model.values.phrases import moment

LARGEST = 1 << 20
"""Bytes of a file of credentials that are read."""

YEAR_9999 = 253_370_764_800.0
"""Later ends, in s since 1970 UTC, are none: no date can show them."""


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
    """Return when a file ends in one of its versions."""
    with path.open("rb") as file:
        life = life_of(file.read(LARGEST))
    return None if life is None else life.end


class CredentialLife(NamedTuple):
    """When a credential begins, None if unknown, and ends, in s since 1970 UTC."""

    begin: float | None
    end: float


def life_of(content: bytes) -> CredentialLife | None:
    """Return the life of a PEM file's first certificate, or of a JSON web token; None if it is neither."""
    if b"-----BEGIN CERTIFICATE-----" in content:
        from cryptography import x509

        with suppress(ValueError):
            # The first is the bearer's; its authorities' follow.
            first = x509.load_pem_x509_certificates(content)[0]
            return CredentialLife(
                first.not_valid_before_utc.timestamp(), first.not_valid_after_utc.timestamp()
            )
    elif content.count(b".") == 2 and len(content) < 20_000:
        payload = content.strip().split(b".")[1]
        with suppress(ValueError, TypeError):
            claims = json.loads(base64.urlsafe_b64decode(payload + b"=" * (-len(payload) % 4)))
            if isinstance(claims, dict) and (end := _time(claims, "exp")) is not None:
                return CredentialLife(_time(claims, "iat"), end)
    return None


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    return float(value) if isinstance(value, (int, float)) and 0 <= value < YEAR_9999 else None
