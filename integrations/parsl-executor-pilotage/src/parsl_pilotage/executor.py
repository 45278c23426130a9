"""The executor: each app is a job, and apps that come within a moment are one task."""

import atexit
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cached_property
from typing import TYPE_CHECKING, Any

from parsl.app.errors import wrap_error
from parsl.data_provider.data_manager import default_staging
from parsl.data_provider.staging import Staging
from parsl.executors.base import ParslExecutor
from parsl.monitoring.radios.base import RadioConfig
from parsl.utils import RepresentationMixin

from .staging import PilotageStaging, catalogue_files, in_folder

if TYPE_CHECKING:
    from pilotage.client.executor import TaskExecutor

# A child of the logger that writes parsl.log.
logger = logging.getLogger("parsl.executors.pilotage")

LABEL = "parsl"
"""The label of tasks that has the number of Parsl's run."""


class PilotageExecutor(ParslExecutor, RepresentationMixin):
    """Runs apps as jobs of Pilotage. There are no blocks: Pilotage keeps pilots in the sites' queues.

    The nodes need the same minor version of Python, and Parsl for bash apps, files and ``walltime``.
    ``conda`` is a folder there of a conda environment or venv that has them. ``working_dir`` is a folder that
    nodes share with you, in which apps run; without it each runs in its job's own folder.
    """

    def __init__(
        self,
        label: str = "pilotage",
        *,
        url: str | None = None,
        home: str | None = None,
        working_dir: str | None = None,
        conda: str | None = None,
        queue: str | None = None,
        site: str | None = None,
        fields: dict[str, Any] | None = None,
        detach: bool = False,
        storage_access: Sequence[Staging] | None = None,
        remote_monitoring_radio: RadioConfig | None = None,
    ) -> None:
        """Take the options: address and token are by default as of the command ``pilotage``.

        ``queue`` and ``site`` count for apps whose resource specification has none. ``fields`` are further
        fields of all tasks. With ``detach``, jobs go on when Parsl shuts down.
        """
        super().__init__()
        self.label = label
        self.url = url
        self.home = home
        self.working_dir = working_dir
        self.conda = conda
        self.queue = queue
        self.site = site
        self.fields = fields
        self.detach = detach
        self.storage_access = storage_access
        self.remote_monitoring_radio = remote_monitoring_radio
        self._has_begun = False
        if storage_access is None:
            self.storage_access = [PilotageStaging(), *default_staging]

    def start(self) -> None:
        """Take the address and the token. Raises ``ValueError`` for wrong ones."""
        from pilotage.settings import Settings

        chosen = {"url": self.url, "home": self.home}
        self._settings = Settings.read(**{name: text for name, text in chosen.items() if text is not None})
        # Parsl shuts down no executor if the program ends without its clean-up, for example by Ctrl-C.
        atexit.register(self._end)

    @cached_property
    def _tasks(self) -> "TaskExecutor":
        """What runs the apps. It loads the client: Parsl starts without it."""
        from pilotage.client import Client
        from pilotage.client.executor import TaskExecutor

        self._has_begun = True
        fields = {"labels": {LABEL: str(self.run_id)}, **(self.fields or {})}
        if self.conda:
            fields["conda"] = self.conda
        return TaskExecutor(Client(settings=self._settings), fields, "Parsl", logger)

    def submit(
        self, func: Callable[..., Any], resource_specification: dict[str, Any], *args: Any, **kwargs: Any
    ) -> "Future[Any]":
        """Run an app as a job."""
        from pilotage.client.functions import task_name

        from .resources import task_fields

        usual = {"queue": self.queue, "site": self.site}
        request = {name: value for name, value in usual.items() if value} | (resource_specification or {})
        fields = task_fields(request, kwargs.get("walltime"), self._tasks.queues_of)
        # The apps of one name are tasks of their own, as their pages show them.
        fields["name"] = task_name(getattr(func, "__name__", "app"))
        function = unwrapped(func)
        if self.working_dir:
            function = in_folder(function, self.working_dir)
        inputs = catalogue_files(args, kwargs)
        return self._tasks.submit_call(function, args, kwargs, fields=fields, inputs=inputs)

    def shutdown(self) -> None:
        """Cancel the jobs that have not ended, or with ``detach`` leave them."""
        atexit.unregister(self._end)
        self._end()
        super().shutdown()

    def _end(self) -> None:
        if not self._has_begun:
            return
        if self.detach:
            self._tasks.shutdown(wait=False)
            logger.info("Pilotage: the jobs go on; see `pilotage status --label %s=%s`", LABEL, self.run_id)
        else:
            self._tasks.cancel()
        self._has_begun = False

    def monitor_resources(self) -> bool:
        """Return whether Parsl measures apps: no, Pilotage measures jobs."""
        return False


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return an app's function without Parsl's wrapper for errors.

    Pilotage returns errors itself, and the wrapper would load Parsl in each job, which takes seconds.
    """
    inner = getattr(function, "__wrapped__", None)
    is_wrapper = getattr(function, "__code__", None) is wrap_error(unwrapped).__code__
    return inner if is_wrapper and callable(inner) else function
