"""The catalogue that Pilotage keeps itself keeps the promises of the port."""

from collections.abc import Sequence
from itertools import count

import pytest

from pilotage.flow.outside.own_catalogue import OwnCatalogue
from pilotage.model.records.work import File, InputFile, Replica
from pilotage.store import Store
from pilotage.testing.stores import create

from .contract import FILES, CatalogueContract


class OwnShelf:
    """A store with the files of the contract."""

    def __init__(self, store: Store) -> None:
        seeds = count()
        self.port = OwnCatalogue(store, lambda: 1_800_000_000.0, lambda: next(seeds))
        create(
            store,
            *(_file(one) for one in FILES),
            *(Replica(file=one.identifier, storage=storage) for one in FILES for storage in one.replicas),
        )

    def define(self, dataset: str, files: Sequence[InputFile]) -> None:
        self.port.edit(f"{files[0].scope}:{dataset}", [_file(one) for one in files], "set", "test")


def _file(one: InputFile) -> File:
    return File(name=one.identifier, size=one.size, checksum=one.checksum)


class TestOwn(CatalogueContract):
    @pytest.fixture
    def shelf(self, store: Store) -> OwnShelf:
        return OwnShelf(store)
