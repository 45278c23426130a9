"""The settings of this run, or their faults."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pilotage.cli.errors import BadInput, CommandFailure
from pilotage.store_address import is_there, shown_address

if TYPE_CHECKING:
    from pilotage.client import Client
    from pilotage.settings import Settings


def settings() -> "Settings":
    """Return the settings of the environment. Raises ``BadInput`` that names the wrong variable."""
    from pilotage.settings import Settings, WrongSettings

    try:
        return Settings.read()
    except WrongSettings as wrong:
        raise BadInput(
            "; ".join(f"{_place(name)}: {fault}" for name, fault in wrong.faults.items())
        ) from wrong
    except OSError as error:
        raise BadInput(f"{error.filename}: {error.strerror}") from error


def connect(config: "Settings | None" = None) -> "Client":
    """Return a client of the server. Raises ``BadInput`` that names the wrong variable."""
    from pilotage.client import Client

    return Client(settings=config or settings())


def _place(name: str) -> str:
    """Return the place of a setting: its variable, or the token's file."""
    import os

    if name.isupper() or "/" in name:
        return name
    variable = f"PILOTAGE_{name.upper()}"
    if name == "token" and not os.environ.get(variable, "").strip():
        return "the file token in the home"
    return variable


def store_name(url: str) -> str:
    """Return the address of a store without its password. Raises ``BadInput`` if it is no address."""
    try:
        return shown_address(url)
    except ValueError as error:
        raise BadInput(f"PILOTAGE_STORE {error}") from None


def has_store(url: str) -> bool:
    """Return whether a store is available. Raises ``BadInput`` if it is no address."""
    store_name(url)
    return is_there(url)


@contextmanager
def using_store(url: str) -> Iterator[None]:
    """Turn errors of the store or its database into a ``CommandFailure`` that names the store."""
    from sqlalchemy.exc import SQLAlchemyError

    from pilotage.store import StoreError, StoreHeld

    name = store_name(url)
    try:
        yield
    except (StoreError, StoreHeld, SQLAlchemyError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise CommandFailure(f"the store {name} cannot be used: {reason}") from error
