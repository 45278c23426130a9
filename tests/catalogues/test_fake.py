"""The catalogue of tests without a server keeps the promises of the port: else they would prove nothing."""

import pytest

from pilotage.ports.catalogue import PublishingPort

from .contract import SCOPE, PublishingContract
from .fake import FakeCatalogue


class TestFake(PublishingContract):
    @pytest.fixture
    def publisher(self) -> PublishingPort:
        return FakeCatalogue(("north-disk",), (SCOPE,))
