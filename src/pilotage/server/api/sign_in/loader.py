"""Load the sign-in of a server whose settings name issuers. Other servers load nothing of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pilotage.flow.runtime import Runtime
from pilotage.server.api.edge.access import SignedTokenCheck
from pilotage.store import Store

if TYPE_CHECKING:
    from pilotage.server.api.sign_in.issuer_files import Issuer


def issuers_of(file: Path | None) -> "Sequence[Issuer]":
    """Return the issuers of a file; none without one. Raises ``BadFile``."""
    if file is None:
        return ()
    from pilotage.server.api.sign_in.issuer_files import read_issuers

    return read_issuers(file)


def refuse_unknown_sites(file: Path | None, issuers: "Sequence[Issuer]", store: Store) -> None:
    """Raise ``BadFile`` if a rule of the file names a site that the federation does not have."""
    if file is not None:
        from pilotage.server.api.sign_in import issuer_files

        issuer_files.refuse_unknown_sites(file, issuers, store.refuse_unknown_sites)


def signed_tokens(runtime: Runtime, issuers: "Sequence[Issuer]") -> SignedTokenCheck | None:
    """Return what accepts the tokens of issuers; None without issuers."""
    if not issuers:
        return None
    from pilotage.server.api.sign_in.signed_tokens import SignedTokens

    return SignedTokens(issuers, runtime.store, runtime.clock)
