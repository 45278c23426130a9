"""The federation with the quotas and the targets of shares that people set beside its file."""

from collections.abc import Sequence
from dataclasses import replace

from pilotage.model.records.federation import Federation
from pilotage.model.records.quotas import QuotaException


def with_exceptions(federation: Federation, exceptions: Sequence[QuotaException]) -> Federation:
    """Return the federation with these limits and targets in place of those that it declares."""
    if not exceptions:
        return federation
    keys = {exception.key for exception in exceptions}
    declared = [exception for exception in federation.quotas.exceptions if exception.key not in keys]
    targets = {
        (exception.name, exception.vo): exception.target
        for exception in exceptions
        if exception.kind == "share" and exception.target is not None
    }
    return replace(
        federation,
        quotas=replace(federation.quotas, exceptions=(*declared, *exceptions)),
        shares=tuple(
            replace(share, target=targets.get((share.name, share.vo), share.target))
            for share in federation.shares
        ),
    )


def of_shares(federation: Federation, exceptions: Sequence[QuotaException]) -> tuple[QuotaException, ...]:
    """Return the exceptions without targets of shares that the federation does not have."""
    shares = {(share.name, share.vo) for share in federation.shares}
    return tuple(
        exception
        for exception in exceptions
        if exception.kind != "share" or (exception.name, exception.vo) in shares
    )
