"""Make versions of datasets from files in the catalogue."""

from collections.abc import Sequence

from pilotage.flow.calls.data.catalogue import refuse_beyond_quota
from pilotage.flow.outside.own_catalogue import Edit
from pilotage.flow.runtime import Runtime
from pilotage.model.records.work import File
from pilotage.model.values.patterns import matcher
from pilotage.model.values.scopes import identifier, name_of, split_identifier
from pilotage.request_budget import asking
from pilotage.store.tables.datasets import DatasetVersion


def edit(
    runtime: Runtime, dataset: str, names: Sequence[str], match: str, edit: Edit, actor: str
) -> DatasetVersion:
    """Make the next version of a dataset from files of its scope: named ones, and matching ones.

    If nothing would differ, the current version stays. Raises LookupError for files that the catalogue lacks,
    and CatalogueError.
    """
    if edit != "remove":
        refuse_beyond_quota(runtime, actor)
    scope = split_identifier(dataset)[0]
    own = runtime.catalogues.own
    files = [identifier(scope, name) for name in names]
    if edit == "remove":
        # A pattern cannot find forgotten files, and their size no longer matters.
        given = [File(name=name, size=0, checksum="") for name in files]
        given += _matching_members(runtime, dataset, match) if match else []
    else:
        matching = [one.file for one in own.matching(scope, match)] if match else []
        given = _known(runtime, files)
        given += [File(name=one.identifier, size=one.size, checksum=one.checksum) for one in matching]
    return own.edit(dataset, given, edit, actor)


def _matching_members(runtime: Runtime, dataset: str, match: str) -> list[File]:
    current, accepts = runtime.catalogues.own.version(dataset), matcher(match)
    members = runtime.store.datasets.files(dataset, current.version)
    return [file for file in asking(members) if accepts(name_of(file.name))]


def _known(runtime: Runtime, names: Sequence[str]) -> list[File]:
    found = runtime.store.catalogue.files(names)
    if lacking := sorted(set(names) - {file.name for file in found}):
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise LookupError(f"the catalogue does not have {lacking[0]}{more}; register them first")
    return found
