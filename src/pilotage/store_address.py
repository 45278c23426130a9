"""The address of a store: check it, and show it without passwords."""

from contextlib import suppress
from pathlib import Path


def shown_address(url: str) -> str:
    """Return the address of a store without its passwords. Raises ValueError if it is no address."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    with suppress(ArgumentError):
        address = make_url(url)
        if address.get_backend_name() in ("sqlite", "postgresql"):
            # Hide passwords, also those in options: this goes to terminals and logs.
            hidden = {name: "hidden" for name in address.query if "password" in name}
            return address.update_query_dict(hidden).render_as_string(hide_password=True)
    remedy = "give sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST/NAME"
    raise ValueError(f"is not the address of a store; {remedy}")


def is_there(url: str) -> bool:
    """Return whether a store is available: a database server's, or an existing file.

    Raises ValueError if it is no address.
    """
    from sqlalchemy import make_url

    shown_address(url)
    address = make_url(url)
    return address.get_backend_name() != "sqlite" or Path(address.database or ":memory:").is_file()
