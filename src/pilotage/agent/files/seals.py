"""The seal by which a server knows that its own pilot left results in a site's spool."""

from __future__ import annotations

import hmac


def seal(token_hash: str, job: int, attempt: int, manifest: bytes) -> str:
    """Return the seal of an attempt's manifest. ``token_hash`` is the SHA-256 of the pilot's own token."""
    key = hmac.digest(token_hash.encode(), f"results of {job}.{attempt}".encode(), "sha256")
    return hmac.new(key, manifest, "sha256").hexdigest()
