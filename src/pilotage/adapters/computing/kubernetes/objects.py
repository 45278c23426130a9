"""The objects of one pilot as API documents: its Job, its Secret, and the agent that all pilots share."""

import base64
import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field

from pilotage.adapters.computing.agent_file import agent_file, pilot_script
from pilotage.adapters.computing.options import LocalPath, OneLine, Word
from pilotage.ports.computing import PilotOrder

Label = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]

MANAGED = {"app.kubernetes.io/managed-by": "pilotage"}
"""The label of all objects made here. It finds them again."""

SELECTOR = ",".join(f"{name}={value}" for name, value in MANAGED.items())
OTHERS = ",".join(f"{name}!={value}" for name, value in MANAGED.items())
"""Selectors of Pilotage's objects, and of all others."""
NAME = "pilotage/pilot"
"""The annotation with the pilot's full name. The Job's name is only derived from it."""

KEPT = 86_400
"""Seconds that an ended Job stays, so that people can inspect it."""

GRACE = 60
"""Seconds after its walltime at which a pilot is ended by force."""

CONTAINER = "pilot"
"""The name of the pilot's container in its pod."""

_AGENT, _TOKEN, _WORK = "/pilotage/agent", "/pilotage/token", "/work"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """Options of a Kubernetes cluster, and what pilots need there."""

    image: Word
    """The image for pilots. It must have a shell and Python 3.9 or newer."""
    kubeconfig: LocalPath = ""
    """The file with cluster and credentials; empty: the usual file, or the pod's own account."""
    context: OneLine = ""
    """The kubeconfig's context; empty: its current one."""
    namespace: Label = "default"
    """The namespace of Jobs, Secrets and one ConfigMap."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that nodes must have."""
    tolerations: tuple[Mapping[str, str | int], ...] = ()
    """Taints of nodes that pilots tolerate, each in the API's form."""
    resources: Mapping[str, str | int] = field(default_factory=dict)
    """Resources besides cores and memory, such as ``nvidia.com/gpu: 1``."""
    priority_class: Label | None = None
    """The priority class of pilots' pods."""
    service_account: Label | None = None
    """The service account of pilots' pods. Its token is not mounted."""
    image_pull_secrets: tuple[Label, ...] = ()
    """Secrets of the namespace for the image's registry."""
    python: Word = "python3"
    """The Python of the image."""


def object_name(pilot: str) -> str:
    """Return the name of a pilot's objects: its own if the API accepts it, else one derived from it with a
    hash."""
    plain = re.sub(r"[^a-z0-9-]+", "-", pilot.lower()).strip("-")
    if plain == pilot and len(plain) <= 63:
        return plain
    return f"{plain[:46].strip('-') or 'pilot'}-{hashlib.sha256(pilot.encode()).hexdigest()[:16]}"


def agent_map() -> dict[str, Any]:
    """Return the ConfigMap of the agent's file.

    It is named after its content, so each version has its own.
    """
    content = agent_file()
    name = f"pilotage-agent-{hashlib.sha256(content).hexdigest()[:16]}"
    return {
        "metadata": {"name": name, "labels": MANAGED},
        "immutable": True,
        "binaryData": {"agent.pyz": base64.b64encode(content).decode()},
    }


def secret(order: PilotOrder, owner: str) -> dict[str, Any]:
    """Return the Secret of a pilot's token. It disappears with the Job of this uid."""
    name = object_name(order.name)
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": owner}
    return {
        "metadata": {"name": name, "labels": MANAGED, "ownerReferences": [job]},
        "type": "Opaque",
        "data": {"token": base64.b64encode(order.token.encode()).decode()},
    }


def job(order: PilotOrder, options: KubernetesOptions, agent: str) -> dict[str, Any]:
    """Return the Job of one pilot: a single pod, never retried, that waits for its Secret."""
    labels = {"labels": MANAGED, "annotations": {NAME: order.name}}
    return {
        "metadata": {"name": object_name(order.name), **labels},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": math.ceil(order.walltime) + GRACE,
            "ttlSecondsAfterFinished": KEPT,
            "template": {"metadata": labels, "spec": _pod(order, options, agent)},
        },
    }


def _pod(order: PilotOrder, options: KubernetesOptions, agent: str) -> dict[str, Any]:
    script = pilot_script(
        order, options.python, f"--directory={_WORK}", f"--token-file={_TOKEN}/token", f"--hide={_TOKEN}"
    )
    needed: dict[str, Any] = {**options.resources, "cpu": str(order.cores)}
    if order.memory:
        needed["memory"] = f"{math.ceil(order.memory)}M"
    volumes: dict[str, tuple[str, dict[str, Any]]] = {
        "agent": (_AGENT, {"configMap": {"name": agent}}),
        "token": (_TOKEN, {"secret": {"secretName": object_name(order.name), "defaultMode": 0o400}}),
        "work": (_WORK, {"emptyDir": {}}),
    }
    container = {
        "name": CONTAINER,
        "image": options.image,
        # The API replaces $(NAME), and turns $$ into $.
        "command": ["/bin/sh", "-c", script.replace("$(", "$$("), f"{_AGENT}/agent.pyz"],
        "workingDir": _WORK,
        "resources": {"requests": needed, "limits": needed},
        "volumeMounts": [{"name": name, "mountPath": path} for name, (path, _) in volumes.items()],
        # If the agent fails, the end of its log becomes the reason.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "nodeSelector": dict(options.node_selector),
        "tolerations": [dict(toleration) for toleration in options.tolerations],
        "imagePullSecrets": [{"name": name} for name in options.image_pull_secrets],
        "containers": [container],
        "volumes": [{"name": name, **source} for name, (_, source) in volumes.items()],
    }
    if options.priority_class:
        pod["priorityClassName"] = options.priority_class
    if options.service_account:
        pod["serviceAccountName"] = options.service_account
    return pod
