"""Pilots as Kubernetes Jobs: each is created under its own name, found in two lists, and deleted."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast

from cachetools import FIFOCache

from pilotage.adapters.computing.kubernetes.objects import (
    NAME,
    OTHERS,
    SELECTOR,
    KubernetesOptions,
    agent_map,
    job,
    object_name,
    secret,
)
from pilotage.adapters.computing.kubernetes.pilot_states import END_DOUBT, job_status
from pilotage.adapters.computing.options import parse
from pilotage.adapters.computing.web_service import GATEWAYS
from pilotage.model.values.phrases import not_installed
from pilotage.ports.adapters import AdapterError
from pilotage.ports.computing import (
    Capacity,
    ElementState,
    PilotOrder,
    PilotStatus,
    Submitted,
    counts,
)

try:
    import kubernetes
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError
except ImportError as error:
    raise AdapterError(not_installed(error.name or "kubernetes", "kubernetes")) from error

TIMEOUTS = (10, 60)
"""Time limits in s for connecting, and without a byte."""

PHASES: Mapping[str, ElementState] = {
    "Pending": "waiting",
    "Running": "running",
    "Succeeded": "ended",
    "Failed": "ended",
}
"""Phases of pods."""

PAGE = 500
"""Most objects in one answer."""

MOST_PAGES = 200
MOST_DELETED = 100_000


class Kubernetes:
    """The computing element kind ``kubernetes``. ``KubernetesOptions`` has its options.

    A reference is ``NAMESPACE/JOB/UID``.
    """

    end_doubt = END_DOUBT

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = parse("kubernetes", KubernetesOptions, options)
        self._lock = threading.Lock()
        self._client: Any = None
        self._deleted: FIFOCache[str, None] = FIFOCache(MOST_DELETED)

    def submit(self, orders: Sequence[PilotOrder]) -> Sequence[Submitted]:
        """Create a Job for each order, and then the Secret that its pod waits for.

        Raises TimeoutError if a Job may have been made. Its name finds it when the orders come
        again.
        """
        if not orders:
            return []
        agent = agent_map()
        self._call(self._core().create_namespaced_config_map, self._options.namespace, agent, may_exist=True)
        return [self._submitted(order, agent["metadata"]["name"]) for order in orders]

    def poll(self, references: Collection[str]) -> Mapping[str, PilotStatus]:
        """Return states from one list of Jobs and one of their pods, which know the reasons."""
        jobs = {self._reference(entry): entry for entry in self._jobs()} if references else {}
        pods = {self._owner(pod): pod for pod in self._pods()} if jobs else {}
        with self._lock:
            deleted = {reference for reference in references if reference in self._deleted}
        return {
            reference: job_status(jobs.get(reference), pods.get(reference.rpartition("/")[2]))
            if reference not in deleted or reference in jobs
            else PilotStatus(state="ended", reason="its Job was deleted")
            for reference in references
        }

    def cancel(self, references: Collection[str]) -> None:
        """Delete the Jobs with their pods and Secrets. Raise the first refusal at the end."""
        faults = [fault for reference in references if (fault := self._delete(reference))]
        if faults:
            raise faults[0]

    def _delete(self, reference: str) -> OSError | None:
        """Delete a Job if its uid matches. Return the API's refusal, if any."""
        namespace, name, uid = ([*reference.split("/"), "", ""])[:3]
        if namespace != self._options.namespace or not name or not uid:
            return None
        # Match the uid: a person or program may have made another Job under the same name since.
        body = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        try:
            self._call(self._batch().delete_namespaced_job, name, namespace, body=body)
        except (FileNotFoundError, FileExistsError):
            return None
        except OSError as error:
            return error
        with self._lock:
            self._deleted[reference] = None
        return None

    def capacity(self) -> Capacity:
        """Return the pilots of this namespace, and other people's pods in it, that run and wait."""
        states = [
            status.state for status in self.poll([self._reference(entry) for entry in self._jobs()]).values()
        ]
        pods = self._listed(self._core().list_namespaced_pod, selector=OTHERS)
        states += [PHASES.get(pod.status.phase, "unknown") for pod in pods]
        running, waiting = counts(states)
        scope = f"kubernetes {self._options.kubeconfig} {self._options.context} {self._options.namespace}"
        return Capacity(running=running, waiting=waiting, everybody=True, scope=scope)

    def _submitted(self, order: PilotOrder, agent: str) -> Submitted:
        namespace, name = self._options.namespace, object_name(order.name)
        try:
            entry = self._existing_job(order, agent)
            if (entry.metadata.annotations or {}).get(NAME) != order.name:
                return Submitted(error=f"{order.name}: another Job has the name {namespace}/{name}")
            self._provide(order, entry.metadata.uid)
        except TimeoutError:
            raise
        except OSError as error:
            return Submitted(error=f"{order.name}: {error}")
        return Submitted(reference=self._reference(entry))

    def _existing_job(self, order: PilotOrder, agent: str) -> Any:
        """Return the Job of an order, which may exist already. Raises TimeoutError if that is unknown."""
        namespace, name = self._options.namespace, object_name(order.name)
        create, read = self._batch().create_namespaced_job, self._batch().read_namespaced_job
        try:
            return self._call(
                create, namespace, job(order, self._options, agent), may_exist=True
            ) or self._call(read, name, namespace)
        except TimeoutError as lost:
            with suppress(OSError):
                return self._call(read, name, namespace)
            raise lost from None

    def _provide(self, order: PilotOrder, uid: str) -> None:
        """Create the token's Secret, or put this token into an existing one.

        If that fails, delete the Job.
        """
        namespace, body = self._options.namespace, secret(order, uid)
        try:
            if self._call(self._core().create_namespaced_secret, namespace, body, may_exist=True) is None:
                name = object_name(order.name)
                self._call(self._core().patch_namespaced_secret, name, namespace, {"data": body["data"]})
        except OSError:
            with suppress(OSError):
                self.cancel([f"{namespace}/{object_name(order.name)}/{uid}"])
            raise

    def _jobs(self) -> Iterator[Any]:
        return self._listed(self._batch().list_namespaced_job)

    def _pods(self) -> Iterator[Any]:
        return self._listed(self._core().list_namespaced_pod)

    def _listed(self, call: Callable[..., Any], selector: str = SELECTOR) -> Iterator[Any]:
        """Yield all objects with these labels, by default Pilotage's, page by page."""
        following = ""
        for _ in range(MOST_PAGES):
            page = self._call(
                call, self._options.namespace, label_selector=selector, limit=PAGE, _continue=following
            )
            yield from page.items
            following = page.metadata._continue or ""
            if not following:
                return
        raise OSError(f"more than {MOST_PAGES * PAGE} objects in namespace {self._options.namespace}")

    def _reference(self, entry: Any) -> str:
        return f"{self._options.namespace}/{entry.metadata.name}/{entry.metadata.uid}"

    def _owner(self, pod: Any) -> str:
        """Return the uid of the Job that owns a pod."""
        return next((owner.uid for owner in pod.metadata.owner_references or () if owner.kind == "Job"), "")

    def _batch(self) -> Any:
        return kubernetes.client.BatchV1Api(self._open())

    def _core(self) -> Any:
        return kubernetes.client.CoreV1Api(self._open())

    def _open(self) -> Any:
        """Return the client, made at the first call: a mere check of the federation may lack the files."""
        options = self._options
        with self._lock:
            if self._client is None:
                try:
                    self._client = _client(options.kubeconfig, options.context)
                except (kubernetes.config.ConfigException, ValueError, TypeError) as error:
                    raise OSError(f"no cluster is known: {error}") from None
            return self._client

    def _call(self, call: Callable[..., Any], *arguments: Any, may_exist: bool = False, **named: Any) -> Any:
        """Call the API.

        Return None if the name exists already and ``may_exist``. Raises FileNotFoundError if there is
        no such object, FileExistsError for any other conflict, TimeoutError if the call may have taken
        effect without an answer, and OSError if the API refuses it or cannot be reached.
        """
        try:
            return call(*arguments, **named, _request_timeout=TIMEOUTS)
        except ApiException as error:
            if error.status == HTTPStatus.CONFLICT and may_exist:
                return None
            raise _refusal(error) from None
        except HTTPError as error:
            unsent = isinstance(error, NewConnectionError | ConnectTimeoutError | SSLError)
            kind = OSError if unsent else TimeoutError
            raise kind(
                f"the cluster {'cannot be reached' if unsent else 'does not answer'}: {error}"[:300]
            ) from None
        except (ValueError, TypeError, AttributeError) as error:
            # For a malformed answer the client may raise any exception.
            raise OSError(f"the cluster cannot be reached: {str(error)[:300]}") from None


def _client(kubeconfig: str, context: str) -> Any:
    configuration, config = kubernetes.client.Configuration(), cast("Any", kubernetes.config)
    if kubeconfig or context:
        config.load_kube_config(kubeconfig or None, context or None, configuration, persist_config=False)
    else:
        config.load_config(client_configuration=configuration)
    configuration.retries = False
    return kubernetes.client.ApiClient(configuration)


def _refusal(error: Any) -> OSError:
    """Return the reason in the answer, an API document, on one line."""
    body = str(error.body or "")[:2000]
    text = body.partition('"message":"')[2].partition('","')[0] or body
    message = " ".join(f"{error.status} {error.reason}: {text}".split())[:300]
    kinds: Mapping[int, type[OSError]] = {
        404: FileNotFoundError,
        409: FileExistsError,
        **dict.fromkeys((408, 500, *GATEWAYS), TimeoutError),
    }
    return kinds.get(error.status, OSError)(message)
