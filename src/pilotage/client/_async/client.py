"""The client: all requests together."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pilotage.settings import Settings

from .administration import AsyncAdministration
from .connection import AsyncServerConnection
from .job_control import AsyncJobControl
from .notifications import AsyncNotificationRequests
from .records import AsyncRequests
from .reruns import AsyncReruns
from .workflows import AsyncWorkflowRequests

if TYPE_CHECKING:
    from pilotage.client.executor import TaskExecutor


class AsyncClient(
    AsyncJobControl, AsyncReruns, AsyncWorkflowRequests, AsyncNotificationRequests, AsyncAdministration
):
    """A client of one server.

    Without arguments it uses the settings of the command line: ``PILOTAGE_URL``, and ``PILOTAGE_TOKEN``, the
    sign-in, or the file ``token`` in ``PILOTAGE_HOME``. A task or job is meant by its number, a task's name,
    a word such as ``"job:345"``, or by its record. Each failure is a ``ClientError`` with the server's
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
        arguments = {"url": url, "token": token, "home": home}
        chosen = {name: text for name, text in arguments.items() if text is not None}
        super().__init__(AsyncServerConnection(settings or Settings.read(**chosen)))

    def _client(self) -> AsyncRequests:
        return self

    def executor(self, **fields: Any) -> "TaskExecutor":
        """Return a ``concurrent.futures.Executor`` that runs Python functions as jobs.

        ``fields`` are fields of its tasks, such as ``ram=2000``. It needs the extra ``functions`` here, and
        the same minor version of Python on the nodes.
        """
        from pilotage.client._sync.client import Client
        from pilotage.client.executor import TaskExecutor

        return TaskExecutor(Client(settings=self._connection.settings), fields)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._connection.settings.url}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
