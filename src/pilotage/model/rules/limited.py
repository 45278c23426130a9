"""The federation with the quotas that people set beside its file."""

from collections.abc import Sequence
from dataclasses import replace

from pilotage.model.records.federation import Federation
from pilotage.model.records.quotas import QuotaException


def with_exceptions(federation: Federation, exceptions: Sequence[QuotaException]) -> Federation:
    """Return the federation with these limits in place of those that it declares for the same holders."""
    if not exceptions:
        return federation
    keys = {exception.key for exception in exceptions}
    declared = [exception for exception in federation.quotas.exceptions if exception.key not in keys]
    return replace(federation, quotas=replace(federation.quotas, exceptions=(*declared, *exceptions)))
