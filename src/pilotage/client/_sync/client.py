# Written by `make docs` from ../_async; do not edit.
"""The client: all requests together."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pilotage.settings import Settings

from .administration import Administration
from .connection import ServerConnection
from .functions import Functions
from .notifications import NotificationRequests
from .places import Places
from .records import Requests
from .steering import Steering
from .workflows import WorkflowRequests

if TYPE_CHECKING:
    from pilotage.client.executor import TaskExecutor


class Client(
    Functions,
    WorkflowRequests,
    Steering,
    NotificationRequests,
    Places,
    Administration,
):
    """A client of one server.

    Without arguments it uses the settings of the command line: ``PILOTAGE_URL``, and ``PILOTAGE_TOKEN`` or
    the file ``token`` in ``PILOTAGE_HOME``. A task or job is meant by its number, a task's name, a word such
    as ``"job:345"``, or by its record. Each failure is a ``ClientError`` whose text is the server's
    message.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        home: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Open a client. Raises ``WrongSettings``."""
        given = {"url": url, "token": token, "home": home}
        known = settings or Settings.read(**{name: text for name, text in given.items() if text is not None})
        super().__init__(ServerConnection(known))

    def _client(self) -> Requests:
        return self

    def executor(self, **fields: Any) -> "TaskExecutor":
        """Return a ``concurrent.futures.Executor`` that runs Python functions as jobs.

        ``fields`` are those of its tasks, such as ``ram=2000``. It needs the extra ``functions`` here, and
        the same minor version of Python on the nodes.
        """
        from pilotage.client.executor import TaskExecutor

        return TaskExecutor(self._connection.settings, fields)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._connection.settings.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._connection.close()
