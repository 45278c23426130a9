"""Checks of this machine's settings and home."""

import os
import stat
from collections.abc import Iterator
from dataclasses import fields
from difflib import get_close_matches

from pilotage.server.doctor.checks import Finding, check, warning
from pilotage.server.doctor.installation import Installation
from pilotage.settings import Settings, WrongSettings

OF_PAYLOADS = (
    *("ATTEMPT", "CORES", "DEBUG", "FORWARDED", "INDEX", "JOB", "JOBS", "MESSAGE", "SECRETS", "SEED"),
    *("STATION", "SUBJECT", "TASK", "TEST_SEED", "OTHER_PYTHON", "MONITORING_URL", "SITE", "FEDERATION"),
)
"""Variables PILOTAGE_* that are no settings: of payloads, notifications and units, and some for tests."""


@check("settings", first=True)
def wrong_settings(installation: Installation) -> Iterator[Finding]:
    """Read the settings, and name each wrong variable."""
    if installation.known_settings is not None:
        return
    try:
        installation.known_settings = Settings.read()
    except WrongSettings as wrong:
        for name, fault in wrong.faults.items():
            variable = name if name.isupper() or "/" in name else f"PILOTAGE_{name.upper()}"
            yield Finding(
                what=f"{variable}: {fault}",
                why="no command and no server starts with it",
                mend=f"export {variable}=... with a right value, or unset {variable}",
            )
    except OSError as error:
        yield Finding(
            what=f"{error.filename}: {error.strerror}",
            why="without the token no command may do anything",
            mend=f"chown $(id -un) {error.filename}; chmod 600 {error.filename}",
        )


@check("unknown variables")
def unknown_variables(_: Installation) -> Iterator[Finding]:
    """Name variables that look like settings and are none."""
    names = {field.name.upper() for field in fields(Settings)} - {"URL_GIVEN", "TOKEN_FILE", "TOKEN_PLACE"}
    for variable in sorted(os.environ):
        prefix, _marker, name = variable.partition("PILOTAGE_")
        if prefix or not name or name in names or name in OF_PAYLOADS or name.startswith("PARAMETER_"):
            continue
        close = get_close_matches(name, sorted(names), 1)
        hint = f"; PILOTAGE_{close[0]} is one" if close else ""
        yield warning(f"{variable} is no setting{hint}", "its value has no effect", f"unset {variable}")


@check("home")
def home_rights(installation: Installation) -> Iterator[Finding]:
    """Look whether the home can be written, and whether secrets in it are private."""
    home = installation.home
    if not home.exists():
        yield warning(
            f"the home {home} does not exist", "no server has run here", "pilotage init, then: pilotage up"
        )
        return
    if not os.access(home, os.W_OK | os.X_OK):
        yield Finding(
            what=f"the home {home} cannot be written",
            why="a server could keep neither its store nor its token there",
            mend=f"chown $(id -un) {home}; chmod 700 {home}",
        )
    if not home.stat().st_mode & stat.S_IXOTH and not home.stat().st_mode & stat.S_IXGRP:
        return
    for path in (home / "token", home / "secrets.key", *home.glob("*.sqlite*")):
        if path.is_file() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            yield Finding(
                what=f"others can read {path}",
                why="it holds tokens, keys or people's work",
                mend=f"chmod 600 {path}",
            )


@check("token file")
def has_token(installation: Installation) -> Iterator[Finding]:
    """Look for a token for this machine's commands."""
    if not installation.settings.token:
        yield warning(
            f"there is no token in PILOTAGE_TOKEN or {installation.home / 'token'}",
            "the server refuses your commands",
            "pilotage token create --role user --name $(id -un), on the server's machine",
        )
