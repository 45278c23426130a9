"""The manifests for Kubernetes: kustomize builds each overlay, and the schemas of three versions know it."""

import dataclasses
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from pilotage.settings import Settings
from tests.packages.places import ROOT, TOOLS
from tests.packages.running import run

FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = ("pilots", "production", "trial")
VERSIONS = ("1.33", "1.35", "1.37")


@cache
def objects(overlay: str) -> list[Any]:
    """The objects of an overlay, as kubectl would apply them."""
    return list(yaml.safe_load_all(run(TOOLS / "kubectl", "kustomize", FOLDER / "overlays" / overlay)))


def pods(overlay: str) -> Iterator[tuple[Any, Any]]:
    """Yield each object with pods, and their template."""
    for manifest in objects(overlay):
        if template := manifest.get("spec", {}).get("template"):
            yield manifest, template


def containers(template: Any) -> list[Any]:
    return [*template["spec"]["containers"], *template["spec"].get("initContainers", ())]


def selector_of(manifest: Any) -> dict[str, Any] | None:
    spec = manifest.get("spec", {})
    selector: dict[str, Any] | None = spec.get("podSelector") or spec.get("selector")
    return selector


def matches(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    return bool(selector.get("matchLabels", selector).items() <= labels.items())


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_schemas_of_a_version_know_every_field(tmp_path: Path, overlay: str, version: str) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(run(TOOLS / "kubectl", "kustomize", FOLDER / "overlays" / overlay))
    command = (TOOLS / "kubernetes-validate", "--strict", "--kubernetes-version", version)
    output = run(*command, file)
    assert len(objects(overlay)) >= 11
    assert output.count("passed for") == len(objects(overlay))
    file.write_text(file.read_text().replace("runAsNonRoot:", "runAsNoRoot:"))
    with pytest.raises(AssertionError, match="runAsNoRoot"):
        run(*command, file)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_have_no_rights_and_write_nothing_into_their_image(overlay: str) -> None:
    for _, template in pods(overlay):
        security = template["spec"]["securityContext"]
        assert (security["runAsNonRoot"], security["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
        for container in containers(template):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_secrets_are_named_and_never_written(overlay: str) -> None:
    assert "Secret" not in {manifest["kind"] for manifest in objects(overlay)}
    variables = [
        variable
        for _, template in pods(overlay)
        for container in containers(template)
        for variable in container.get("env", ())
    ]
    secret = [one for one in variables if re.search("STORE|PASSWORD|TOKEN", one["name"])]
    assert len(secret) >= 3
    assert all("secretKeyRef" in one["valueFrom"] for one in secret)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_selector_selects_pods(overlay: str) -> None:
    labels = [template["metadata"]["labels"] for _, template in pods(overlay)]
    for manifest in objects(overlay):
        if selector := selector_of(manifest):
            name = f"{manifest['kind']} {manifest['metadata']['name']}"
            assert any(matches(selector, own) for own in labels), name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_servers_have_probes_a_budget_and_policies(overlay: str) -> None:
    server = next(template for manifest, template in pods(overlay) if manifest["kind"] == "Deployment")
    container = server["spec"]["containers"][0]
    paths = {
        name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")
    }
    assert paths["readiness"] == "/api/v1/health/ready"
    assert paths["startup"] == paths["liveness"] == "/api/v1/health/live"
    guards = {
        manifest["kind"]
        for manifest in objects(overlay)
        for selector in [
            manifest.get("spec", {}).get("podSelector") or manifest.get("spec", {}).get("selector")
        ]
        if selector and matches(selector, server["metadata"]["labels"])
    }
    assert guards == {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"}
    (job,) = (manifest for manifest in objects(overlay) if manifest["kind"] == "Job")
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["store", "upgrade"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_settings_and_the_federation_are_ones_that_a_server_takes(tmp_path: Path, overlay: str) -> None:
    names = {field.name for field in dataclasses.fields(Settings)} | {"log_format"}
    settings, file = {}, tmp_path / "federation.yaml"
    for manifest in objects(overlay):
        if manifest["kind"] == "ConfigMap" and "federation.yaml" in manifest["data"]:
            file.write_text(manifest["data"]["federation.yaml"])
        elif manifest["kind"] == "ConfigMap":
            settings = manifest["data"]
    values = {name.removeprefix("PILOTAGE_").lower(): value for name, value in settings.items()}
    assert {"url"} <= values.keys() <= names
    Settings.read(**values)
    run(Path(sys.executable).parent / "pilotage", "federation", "check", file)


def test_the_role_for_pilots_is_the_one_of_the_page() -> None:
    page = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
    (block,) = (text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "kind: Role" in text)
    (role,) = (manifest for manifest in objects("pilots") if manifest["kind"] == "Role")
    assert role == yaml.safe_load(block)
