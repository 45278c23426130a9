"""The settings of this run, or what is wrong with them."""

from typing import TYPE_CHECKING

from .errors import BadInput

if TYPE_CHECKING:
    from pilotage.settings import Settings


def settings() -> "Settings":
    """The settings by the environment. Raises :class:`BadInput` naming the variable that is wrong."""
    from pydantic import ValidationError

    from pilotage.settings import Settings

    try:
        return Settings()
    except ValidationError as error:
        faults = (
            f"PILOTAGE_{str(fault['loc'][0]).upper()}: {fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors()
            if fault["type"] != "default_factory_not_called"
        )
        raise BadInput("; ".join(faults)) from error
    except OSError as error:
        raise BadInput(f"{error.filename}: {error.strerror}") from error
