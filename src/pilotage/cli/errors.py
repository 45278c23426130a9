"""Why a command fails, with its exit code."""


class CommandFailure(Exception):
    """A requested object does not exist, or an action failed."""

    code = 1


class BadInput(CommandFailure):
    """Typed or written input cannot be accepted."""

    code = 2


class StillUnderWay(CommandFailure):
    """Tasks had not ended when the time of ``wait --timeout`` was over."""

    code = 4


class Detached(CommandFailure):
    """The user interrupted a command that followed tasks. The tasks go on."""

    code = 130


class PayloadFailed(CommandFailure):
    """A payload failed, and its exit code becomes the command's."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
