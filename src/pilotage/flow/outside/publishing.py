"""Calls of this process that register outputs in datasets; the next pass reads their results."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from operator import attrgetter

from pilotage.flow.outside.answers import OutsideAnswers
from pilotage.flow.outside.catalogues import Catalogues
from pilotage.model.records.catalogues import ReplicationRule
from pilotage.model.records.observations import PublicationSighting
from pilotage.model.records.publications import Publication, is_own, split_dataset
from pilotage.ports.catalogue import CatalogueError, OutputFile

PublicationAttempt = tuple[int, int]
"""A publication and its attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationOrder:
    """The outputs that one call registers, by publication. Publications in ``closing`` close the dataset."""

    dataset: str
    files: Mapping[PublicationAttempt, OutputFile]
    closing: Sequence[Publication]
    rule: ReplicationRule | None

    @property
    def keys(self) -> list[PublicationAttempt]:
        """Return all publications of the call."""
        return [*self.files, *((publication.id, publication.attempt) for publication in self.closing)]


class Publishing(OutsideAnswers[PublicationSighting]):
    """Starts calls, and keeps their results until a pass has committed them. Nothing here blocks."""

    def __init__(self, catalogues: Catalogues, on_news: Callable[[], None]) -> None:
        super().__init__(attrgetter("publication", "attempt"), on_news)
        self._catalogues = catalogues

    def start(self, order: PublicationOrder) -> None:
        """Start registering outputs in one dataset."""

        def done(future: "Future[Mapping[str, str]]") -> None:
            error = future.exception()
            if error is None:
                self._registered(order, future.result())
            else:
                self._failed(order, error)

        self.begin(order.keys)
        try:
            call = self._call(order)
        except (CatalogueError, LookupError) as error:
            # An adapter that is missing here may exist after a reinstallation of the server.
            self._failed(order, CatalogueError(str(error)))
            return
        call.add_done_callback(done)

    def _call(self, order: PublicationOrder) -> "Future[Mapping[str, str]]":
        if is_own(order.dataset):
            return self._catalogues.gather(order.dataset, order.closing[0].task)
        catalogue, scope, name = split_dataset(order.dataset)
        adapter = self._catalogues.external(catalogue)
        return adapter.publish(scope, name, list(order.files.values()), order.rule, bool(order.closing))

    def _registered(self, order: PublicationOrder, refused: Mapping[str, str]) -> None:
        errors = {key: refused.get(file.name, "") for key, file in order.files.items()}
        self.add([_sighting(key, errors.get(key, ""), refused=True) for key in order.keys])

    def _failed(self, order: PublicationOrder, error: BaseException) -> None:
        text = str(error) or repr(error)
        refused = isinstance(error, LookupError)
        self.add([_sighting(key, text, refused) for key in order.keys])


def _sighting(key: PublicationAttempt, error: str, refused: bool) -> PublicationSighting:
    return PublicationSighting(
        publication=key[0], attempt=key[1], error=error, refused=bool(error) and refused
    )
