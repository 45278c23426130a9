"""joblib on Pilotage: each batch of calls is a job. It needs joblib here and on the nodes.

python examples/client/joblib_backend.py 20
"""

# mypy: disallow-subclassing-any=False, warn-return-any=False

import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from joblib import Parallel, delayed, parallel_config, register_parallel_backend
from joblib.parallel import ParallelBackendBase

from pilotage.client import Client


class PilotageBackend(ParallelBackendBase):
    """Runs batches of calls as jobs; further options are fields of their tasks, such as ``ram=2000``."""

    supports_retrieve_callback = True

    def __init__(self, nesting_level: int = 0, **fields: Any) -> None:
        super().__init__(nesting_level)
        self._fields = fields

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Open a client."""
        self.parallel = parallel
        self._executor = Client().executor(**self._fields)
        return self.effective_n_jobs(n_jobs)

    def effective_n_jobs(self, n_jobs: int) -> int:
        """Return how many batches run at a time."""
        return n_jobs if n_jobs > 0 else 1000

    def submit(self, func: Callable[[], Any], callback: Callable[[Any], Any] | None = None) -> "Future[Any]":
        """Run a batch."""
        future = self._executor.submit(func)
        if callback:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: "Future[Any]") -> Any:
        """Return a batch's results, or raise its error."""
        return out.result()

    def terminate(self) -> None:
        """End, when all batches have."""
        self._executor.shutdown()

    def abort_everything(self, ensure_ready: bool = True) -> None:  # noqa: ARG002
        """Cancel the jobs: a call has failed, or you pressed Ctrl-C."""
        self._executor.cancel()


register_parallel_backend("pilotage", PilotageBackend)


def area(radius: float) -> float:
    """Return the area of a circle."""
    return 3.14159 * radius**2


if __name__ == "__main__":
    with parallel_config("pilotage", n_jobs=-1, ram=500, conda=sys.prefix):
        print(sum(Parallel()(delayed(area)(radius) for radius in range(int(sys.argv[1])))))
