"""Settings: the home of this machine's files and the server's address, from variables PILOTAGE_*."""

import os
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, field_validator, model_validator

from pilotage.model.values.archive_age import LEAST_ARCHIVE_DAYS
from pilotage.model.values.urls import url_fault


def _store(known: dict[str, Any]) -> str:
    return f"sqlite:///{known['home']}/pilotage.sqlite"


def _token(known: dict[str, Any]) -> str:
    try:
        # Text that is not valid is no token, and is refused.
        return Path(known["home"], "token").read_text(errors="replace").strip()
    except FileNotFoundError:
        return ""


def _host(known: dict[str, Any]) -> str:
    return urlsplit(known["url"]).hostname or "127.0.0.1"


def _port(known: dict[str, Any]) -> int:
    parts = urlsplit(known["url"])
    return parts.port or (443 if parts.scheme == "https" else 80)


class Settings(BaseModel, frozen=True, extra="forbid", validate_default=True):
    """Settings of this machine's server and commands.

    The variable of the same name sets each, if it is not blank: ``PILOTAGE_HOME``, ``PILOTAGE_STORE`` and so
    on. ``home`` holds the default store, ``pilotage.sqlite``, and the default token, ``token``. ``url`` is
    the server's address for clients and pilots. ``host`` and ``port`` are where it listens, by default those
    of the url. ``archive`` is a directory where the server moves records that ended ``archive_after`` days
    ago; without it the server keeps all.
    """

    home: Path = Field(default_factory=lambda: Path.home() / ".pilotage")
    store: Annotated[str, Field(repr=False)] = Field(default_factory=_store)
    url: str = "http://127.0.0.1:8470"
    token: Annotated[str, Field(repr=False)] = Field(default_factory=_token)
    host: str = Field(default_factory=_host)
    port: Annotated[int, Field(ge=0, le=65535)] = Field(default_factory=_port)
    archive: Path | None = None
    archive_after: Annotated[float, Field(ge=LEAST_ARCHIVE_DAYS, le=36_500, allow_inf_nan=False)] = 90.0

    @model_validator(mode="before")
    @classmethod
    def _with_environment(cls, given: dict[str, Any]) -> dict[str, Any]:
        # Read them by hand: pydantic-settings would cost every server 3 MiB.
        variables = {name: os.environ.get(f"PILOTAGE_{name.upper()}") for name in cls.model_fields}
        return {name: value for name, value in variables.items() if value and value.strip()} | given

    @field_validator("home")
    @classmethod
    def _expanded(cls, home: Path) -> Path:
        return home.expanduser().absolute()

    @field_validator("token")
    @classmethod
    def _is_sent(cls, token: str) -> str:
        # A variable filled from a file often ends with a line end.
        token = token.strip()
        if not all("!" <= character <= "~" for character in token):
            # Never show the token itself: others may see this on screens and in logs.
            raise ValueError("the token has a blank, or a character that no token has")
        return token

    @property
    def token_file(self) -> Path | None:
        """Return the file that supplied the token; None if it came from elsewhere."""
        return None if "token" in self.model_fields_set else self.home / "token"

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if fault := url_fault(url, ("http", "https")):
            raise ValueError(f"{fault}; give a URL like http://127.0.0.1:8470")
        return url.rstrip("/")

    def at(self, host: str | None, port: int | None) -> "Settings":
        """Return the settings with another listening address.

        Without a set url, local clients use that address.
        """
        changes: dict[str, Any] = {"host": host or self.host, "port": self.port if port is None else port}
        if "url" not in self.model_fields_set:
            name = "127.0.0.1" if changes["host"] in ("0.0.0.0", "::") else changes["host"]
            changes["url"] = f"http://{f'[{name}]' if ':' in name else name}:{changes['port']}"
        return self.model_copy(update=changes)
