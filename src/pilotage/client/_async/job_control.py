"""What programs use that run jobs for a while: submit, follow, steer, and read results."""

from .functions import AsyncFunctions
from .places import AsyncPlaces
from .steering import AsyncSteering


class AsyncJobControl(AsyncFunctions, AsyncSteering, AsyncPlaces):
    """Runs jobs, and steers them."""

    @property
    def url(self) -> str:
        """The server's address. The page of task 12 is ``/tasks/12`` there."""
        return self._connection.settings.url
