"""What a release brings: its bill of materials as CycloneDX, and the versions that it was tested with."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import Message
from hashlib import sha256
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5
from zipfile import ZipFile

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from generators.dependencies import LOCK, installed_at_users, licence, locked

VENDORED = Path(__file__).parents[2] / "src" / "pilotage" / "server" / "web" / "static" / "VENDORED.json"


def constraints() -> str:
    """Return the lock's versions of all that users install, for ``pip install --constraint``."""
    names = installed_at_users().keys()
    lines = re.findall(r"^(([a-z0-9-]+)==[^\\\n]*?) *\\?$", LOCK.read_text(), re.MULTILINE)
    return "".join(f"{line}\n" for line, name in lines if name in names)


def bill_of_materials(wheel: str, content: bytes, moment: int) -> str:
    """Return the bill of a wheel: what is vendored in it, and what its extras install, as JSON."""
    metadata = _metadata(content)
    product = _component("pypi", metadata["Name"], metadata["Version"], metadata["License-Expression"])
    product.type = ComponentType.APPLICATION
    product.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=sha256(content).hexdigest()))
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, f"{wheel}:{sha256(content).hexdigest()}"))
    bom.metadata.component = product
    bom.metadata.timestamp = datetime.fromtimestamp(moment, UTC)
    versions, parents = locked(), installed_at_users()
    packages = {
        name: _component("pypi", name, versions[name], licence(distribution(name)))
        for name in sorted(parents)
    }
    for name, component in packages.items():
        bom.components.add(component)
        for parent in parents[name]:
            bom.register_dependency(packages.get(_lock_name(parent), product), [component])
    for component in _vendored():
        product.components.add(component)
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _metadata(wheel: bytes) -> Message:
    with ZipFile(BytesIO(wheel)) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def _vendored() -> Iterator[Component]:
    """Yield what the package carries of others."""
    for name, facts in json.loads(VENDORED.read_text()).items():
        component = _component("npm", facts["package"], facts["version"], facts["spdx"])
        component.description = f"{name} of the page, vendored"
        component.hashes.add(HashType(alg=HashAlgorithm.SHA_256, content=facts["sha256"]))
        yield component


def _component(kind: str, name: str, version: str, licence_text: str) -> Component:
    url = PackageURL(type=kind, name=name, version=version)
    licences = [LicenseFactory().make_from_string(licence_text)]
    return Component(name=name, version=version, purl=url, bom_ref=str(url), licenses=licences)


def _lock_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
