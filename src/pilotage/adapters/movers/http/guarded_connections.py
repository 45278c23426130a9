"""Connections to hosts that a storage redirects to. Their address is checked before anything is sent."""

from typing import Any

from requests.adapters import HTTPAdapter

from pilotage.adapters.movers.http.redirects import Redirects
from pilotage.ports.moving import StorageError


class GuardedAdapter(HTTPAdapter):
    """Requests to hosts that a storage redirects to."""

    def __init__(self, redirects: Redirects, **settings: Any) -> None:
        self._redirects = redirects
        super().__init__(**settings)

    def init_poolmanager(self, *positional: Any, **named: Any) -> None:
        """Make pools with guarded connections.

        Connections to a proxy are not guarded, because it is the operator's.
        """
        super().init_poolmanager(*positional, **named)
        classes = self.poolmanager.pool_classes_by_scheme
        self.poolmanager.pool_classes_by_scheme = {
            scheme: type(pool.__name__, (pool,), {"ConnectionCls": self._guarded(pool.ConnectionCls)})
            for scheme, pool in classes.items()
        }

    def _guarded(self, connection: type[Any]) -> type[Any]:
        redirects = self._redirects

        def connect(self: Any) -> None:
            connection.connect(self)
            try:
                redirects.guard(f"//{self.host}", self.sock.getpeername()[0])
            except StorageError:
                self.close()
                raise

        return type(connection.__name__, (connection,), {"connect": connect})
