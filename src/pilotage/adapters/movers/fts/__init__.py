"""FTS, the field's file transfer service: many files per job, and one question about all jobs."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pilotage.adapters.movers.copies.third_party import CannotFetch
from pilotage.adapters.movers.fts.client import FtsClient
from pilotage.adapters.movers.fts.fts_jobs import FtsFile, FtsJobs
from pilotage.adapters.movers.transfer_services import Sign
from pilotage.model.values.urls import file_url
from pilotage.ports.moving import Delivery, Progress

SCHEMES = ("https", "http", "root", "roots")
"""URLs that FTS reads and writes, and whose copies we can check and rename afterwards."""


class Fts:
    """The deliveries that one FTS server makes for one identity.

    Options: ``token_file`` with a bearer token, or ``cert_file`` with an X.509 certificate or proxy and its
    key, which is delegated; ``ca_file`` with trusted authorities; ``activity``, the share at the server;
    ``poll``, seconds between two checks of all jobs; ``unmanaged_tokens``, which stops the server from
    renewing tokens of storages.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._client = FtsClient(url, options)
        self._options = options
        self._lock = threading.Lock()
        self._jobs: FtsJobs | None = None

    def carry(self, delivery: Delivery, progress: Progress, sign: Sign) -> str:
        """See ``ServiceAdapter``."""
        source, target = delivery.source, delivery.destination
        if not all(place.url.partition("://")[0] in SCHEMES for place in (source, target)):
            raise CannotFetch
        with self._lock:
            self._jobs = self._jobs or FtsJobs(self._client, float(self._options.get("poll", 10)))
        return self._jobs.carry(self._request(delivery), progress, sign)

    def _request(self, delivery: Delivery) -> FtsFile:
        target = delivery.destination
        folder = target.path.rpartition("/")[0]
        parts = [*delivery.former_parts, f"{folder}/{delivery.part}".lstrip("/")]
        return FtsFile(
            instance=delivery.instance,
            transfer=delivery.transfer,
            attempt=delivery.attempt,
            size=delivery.size,
            source=file_url(delivery.source.url, delivery.source.path),
            targets={file_url(target.url, part): part for part in parts},
            tokens=self._tokens(delivery),
            activity=str(self._options.get("activity", "")),
        )

    def _tokens(self, delivery: Delivery) -> tuple[str, str] | None:
        """Return the tokens for source and destination; None if a proxy, or our own token, opens both."""
        files = [place.options.get("token_file") for place in (delivery.source, delivery.destination)]
        if "token_file" not in self._options or not any(files):
            return None
        source, target = (
            Path(name or self._options["token_file"]).expanduser().read_text().strip() for name in files
        )
        return source, target
