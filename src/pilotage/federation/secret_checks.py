"""Faults of the secrets that a task names: what a payload could not be given."""

import re
from collections.abc import Iterator

from pilotage.federation.faults import Fault
from pilotage.model.records.work import TaskSpec

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OWN = "PILOTAGE_"


def secret_faults(spec: TaskSpec) -> Iterator[Fault]:
    """Yield secrets of an empty payload, and those whose variable or file cannot be theirs alone."""
    if spec.secrets and not spec.command:
        yield Fault(("secrets",), "are for an empty payload", "give a command that uses them")
    variables: dict[str, int] = {}
    files: dict[str, int] = {}
    for at, secret in enumerate(spec.secrets):
        variable = secret.in_variable
        if variable and not _VARIABLE.fullmatch(variable):
            remedy = f"write {{name: {secret.name}, as: NAME_OF_VARIABLE}}, or file: for a file"
            yield Fault(("secrets", at), f"{variable!r} is not the name of a variable", remedy)
        elif variable.startswith(_OWN):
            yield Fault(("secrets", at), f"{variable!r} is a variable of Pilotage's own", "give another")
        elif variable in spec.environment:
            yield Fault(("secrets", at), f"{variable!r} is in environment, too", "leave one of both out")
        elif variable in variables:
            message = f"{variable!r} is the variable of secrets[{variables[variable]}] already"
            yield Fault(("secrets", at), message, "give another name by as:")
        if secret.file in files:
            message = f"{secret.file!r} is the file of secrets[{files[secret.file]}] already"
            yield Fault(("secrets", at, "file"), message, "give another")
        if variable:
            variables.setdefault(variable, at)
        if secret.file:
            files.setdefault(secret.file, at)
