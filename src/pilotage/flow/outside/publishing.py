"""Calls of this process that register outputs in datasets; the next pass reads their results."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from pilotage.flow.outside.catalogues import Catalogues
from pilotage.model.records.catalogues import ReplicationRule
from pilotage.model.records.observations import PublicationSighting
from pilotage.model.records.publications import Publication, is_own, split_dataset
from pilotage.ports.catalogue import CatalogueError, OutputFile

PublicationAttempt = tuple[int, int]
"""A publication and its attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationOrder:
    """The outputs that one call registers, by publication. Those of ``closing`` close the dataset."""

    dataset: str
    files: Mapping[PublicationAttempt, OutputFile]
    closing: Sequence[Publication]
    rule: ReplicationRule | None

    @property
    def keys(self) -> list[PublicationAttempt]:
        """Return all publications of the call."""
        return [*self.files, *((one.id, one.attempt) for one in self.closing)]


class Publishing:
    """Starts calls, and keeps their results until a pass has committed them. Nothing here blocks.

    ``on_news`` is called when there is something to read.
    """

    def __init__(self, catalogues: Catalogues, on_news: Callable[[], None]) -> None:
        self._catalogues = catalogues
        self._on_news = on_news
        self._lock = threading.Lock()
        self._news: dict[PublicationAttempt, PublicationSighting] = {}
        self._asked: set[PublicationAttempt] = set()

    def start(self, order: PublicationOrder) -> None:
        """Start registering outputs in one dataset."""

        def done(future: "Future[Mapping[str, str]]") -> None:
            error = future.exception()
            if error is None:
                self._registered(order, future.result())
            else:
                self._failed(order, error)

        with self._lock:
            self._asked.update(order.keys)
        try:
            call = self._call(order)
        except (CatalogueError, LookupError) as error:
            # An adapter that is missing here may exist after a reinstallation of the server.
            self._failed(order, CatalogueError(str(error)))
            return
        call.add_done_callback(done)

    @property
    def in_hand(self) -> int:
        """Return how many publications are asked for, or have results that are not recorded."""
        with self._lock:
            return len(self._asked | self._news.keys())

    def news(self) -> tuple[PublicationSighting, ...]:
        """Return the results of publications that are not forgotten yet."""
        with self._lock:
            return tuple(self._news[key] for key in sorted(self._news))

    def forget(self, news: Collection[PublicationSighting]) -> None:
        """Drop news that a commit has processed."""
        with self._lock:
            for one in news:
                self._news.pop((one.publication, one.attempt), None)

    def _call(self, order: PublicationOrder) -> "Future[Mapping[str, str]]":
        if is_own(order.dataset):
            return self._catalogues.gather(order.dataset, order.closing[0].task)
        catalogue, scope, name = split_dataset(order.dataset)
        known = self._catalogues.external(catalogue)
        return known.publish(scope, name, list(order.files.values()), order.rule, bool(order.closing))

    def _registered(self, order: PublicationOrder, refused: Mapping[str, str]) -> None:
        errors = {key: refused.get(file.name, "") for key, file in order.files.items()}
        self._tell([_sighting(key, errors.get(key, ""), refused=True) for key in order.keys])

    def _failed(self, order: PublicationOrder, error: BaseException) -> None:
        text = str(error) or repr(error)
        refused = isinstance(error, LookupError)
        self._tell([_sighting(key, text, refused) for key in order.keys])

    def _tell(self, news: Sequence[PublicationSighting]) -> None:
        with self._lock:
            self._asked.difference_update((one.publication, one.attempt) for one in news)
            self._news |= {(one.publication, one.attempt): one for one in news}
        self._on_news()


def _sighting(key: PublicationAttempt, error: str, refused: bool) -> PublicationSighting:
    return PublicationSighting(
        publication=key[0], attempt=key[1], error=error, refused=bool(error) and refused
    )
