"""Catalogues of one Pilotage: its own, as persons may read it."""

from collections.abc import Sequence
from dataclasses import dataclass

from pilotage.model.identity import Identity
from pilotage.model.scopes import scopes_of
from pilotage.ports.catalogue import CataloguePort, FoundDataset, FoundFile

from .own_catalogue import OwnCatalogue


class Catalogues:
    """Hands out the catalogue of a scope."""

    def __init__(self, own: OwnCatalogue) -> None:
        self.own = own

    def read_by(self, owner: Identity) -> "ReadableCatalogue":
        """Return what a person may read of the catalogues."""
        return ReadableCatalogue(self.own, owner)


@dataclass(frozen=True, slots=True)
class ReadableCatalogue:
    """Finds files in scopes that are a person's; raises LookupError for another scope."""

    _catalogue: CataloguePort
    _owner: Identity

    def matching(self, scope: str, glob: str) -> Sequence[FoundFile]:
        """See :class:`~pilotage.ports.catalogue.CataloguePort`."""
        return self._of(scope).matching(scope, glob)

    def dataset(self, scope: str, name: str, version: int | None) -> FoundDataset:
        """See :class:`~pilotage.ports.catalogue.CataloguePort`."""
        return self._of(scope).dataset(scope, name, version)

    def _of(self, scope: str) -> CataloguePort:
        if scope not in (mine := scopes_of(self._owner)):
            raise LookupError(f"the scope {scope!r} is not yours; yours are {', '.join(mine)}")
        return self._catalogue
