"""Types of single values in documents, with their bounds, and marks of how the store keeps a field."""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Annotated, Any, TypeVar

from annotated_types import GroupedMetadata
from pydantic import AfterValidator, AllowInfNan, BeforeValidator, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError

from pilotage.model.values.docstrings import describe_fields
from pilotage.model.values.paths import FILE_NAME, LONGEST_FILE_NAME, MOST_BYTES_OF_NAME, PLAIN_NAME, is_own

CLOSED = ConfigDict(extra="forbid", json_schema_extra=describe_fields)
"""For records that people and programs send: unknown fields are refused."""

LARGE = ConfigDict(**CLOSED, defer_build=True)
"""The same for the largest records. The API only describes them, and saves their validators, a MiB each."""

DESCRIBED = ConfigDict(json_schema_extra=describe_fields)
"""For every other record in a published schema: its fields' docstrings are their descriptions."""

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@+-]*$")]
LabelName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]*$")]
LabelText = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
Word = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""Any text of one line."""


def _of_people(name: str) -> str:
    if is_own(name):
        raise PydanticCustomError("own", f"lies in {name.partition('/')[0]}, which Pilotage keeps for itself")
    if len(name.encode()) > MOST_BYTES_OF_NAME:
        raise PydanticCustomError("bytes", f"has more than {MOST_BYTES_OF_NAME} bytes in UTF-8")
    return name


FileName = Annotated[
    str,
    Field(min_length=1, max_length=LONGEST_FILE_NAME, pattern=f"^{FILE_NAME}$"),
    AfterValidator(_of_people),
]
LONGEST_DATASET_NAME = 400
DatasetName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=LONGEST_DATASET_NAME,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.+=~-]*(/[A-Za-z0-9_][A-Za-z0-9_.+=~-]*)*$",
    ),
]
"""Without ``@``, which separates its version."""

Scope = Annotated[str, Field(max_length=410, pattern=r"^([A-Za-z0-9][A-Za-z0-9_.@+=~-]*)?$")]
OUTPUT_DATASET = (
    r"^([A-Za-z0-9][A-Za-z0-9_-]*~[A-Za-z0-9][A-Za-z0-9_.-]*:[A-Za-z0-9][A-Za-z0-9_.-]*"
    r"|(user\.[A-Za-z0-9_.@+=~-]+:)?[A-Za-z0-9_][A-Za-z0-9_.+=~-]*(/[A-Za-z0-9_][A-Za-z0-9_.+=~-]*)*)?$"
)
OutputDataset = Annotated[str, Field(max_length=600, pattern=OUTPUT_DATASET)]
"""``CATALOGUE~SCOPE:NAME``, or a dataset in one's own scope: ``user.NAME~VO:NAME``, or just its name."""

OutputName = Annotated[str, Field(min_length=1, max_length=200, pattern=f"^{PLAIN_NAME}$")]
OutputPath = Annotated[str, Field(min_length=1, max_length=200, pattern=f"^{FILE_NAME}$")]
OutputPattern = Annotated[str, Field(min_length=1, max_length=200, pattern=f"^{FILE_NAME}/?$")]
"""A path, a pattern, or a folder, which ends in ``/``. Tasks may have ``{index}`` in it."""

_PART_OF_MOUNT = r"\.{0,2}[^./:,\\\x00-\x1f\x7f-\x9f][^/:,\\\x00-\x1f\x7f-\x9f]*"
MountPoint = Annotated[str, Field(max_length=200, pattern=f"^(/{_PART_OF_MOUNT})+$")]
"""An absolute path. Programs for containers separate the parts of a mount by colons and commas."""
MountFolder = Annotated[str, Field(max_length=200, pattern=f"^{_PART_OF_MOUNT}(/{_PART_OF_MOUNT})*$")]
"""A path in the directory of a job, without these separators: they could lead to the node."""


def plain_checksum(value: object) -> object:
    """Return a checksum in stored form: lower case, and adler32 with leading zeros.

    It is empty if its digits are all zero: then a server listed it that had not computed it.
    """
    if not isinstance(value, str):
        return value
    kind, mark, digits = value.strip().lower().partition(":")
    if digits and not digits.strip("0"):
        return ""
    return f"{kind}{mark}{digits.zfill(8) if kind == 'adler32' and digits else digits}"


Checksum = Annotated[
    str,
    Field(pattern=r"^(adler32:[0-9a-f]{8}|md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}|)$"),
    BeforeValidator(plain_checksum),
]

SMALLEST = 1e-9
"""Numbers that people and programs send are 0 or at least this large, so that division by them stays
finite."""


def _not_tiny(value: float) -> float:
    if 0 < abs(value) < SMALLEST:
        raise PydanticCustomError("tiny", "is nearer to 0 than {least}", {"least": SMALLEST})
    return value


Whole = Annotated[int, Field(strict=True)]
"""A whole number, neither text nor a boolean. Add bounds to it."""

LARGEST_ID = 2**63 - 1
StoredInteger = Annotated[Whole, Field(ge=0, le=LARGEST_ID)]
"""A number that databases can store: of a record, of an attempt, or of bytes."""

LARGEST_FREE = 2**53
"""The largest number where no field says what it counts: up to this all are exact."""


def bounded(value: object) -> object:
    """A free value, with each number in it brought within the bounds; texts and truth values as they are."""
    if isinstance(value, Mapping):
        return {name: bounded(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(bounded, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if not -LARGEST_FREE <= value <= LARGEST_FREE:  # also what is not a number
        return type(value)(LARGEST_FREE if value > 0 else -LARGEST_FREE)
    return 0 if 0 < abs(value) < SMALLEST else value


def _free(values: Mapping[str, Any]) -> Mapping[str, Any]:
    within = bounded(values)
    if within != values:
        message = "holds a number beyond {most}, or nearer to 0 than {least}"
        context = {"most": LARGEST_FREE, "least": SMALLEST}
        raise PydanticCustomError("free_number", message, context)
    return values


FREE_NUMBERS = AfterValidator(_free)
"""Follows the bounds of a mapping of free values."""

Options = Annotated[Mapping[str, Any], FREE_NUMBERS]
"""Values by name whose meaning only an adapter or a plugin knows: the numbers in them are bounded."""


class _Finite(GroupedMetadata):
    def __iter__(self) -> Iterator[object]:
        return iter((Strict(), AllowInfNan(allow_inf_nan=False), AfterValidator(_not_tiny)))


FINITE = _Finite()
"""Follows the bounds of a number: it must be finite, 0 or not tiny, and neither text nor a boolean."""

BLOCKED = -1
"""Closeness of a link over which nothing moves (B5)."""

FARTHEST = 11
"""The largest closeness. The best is 0."""

UNKNOWN_CLOSENESS = 7.7
"""The closeness of a link that declares none (B35)."""

Closeness = Annotated[float, Field(ge=BLOCKED, le=FARTHEST), FINITE]

Count = Annotated[Whole, Field(ge=0, le=2**63 - 1)]
Positive = Annotated[Whole, Field(ge=1, le=10**9)]
Number = Annotated[Whole, Field(ge=0, le=10**9)]
Slots = Annotated[Whole, Field(ge=1, le=100_000)]
Cores = Annotated[Whole, Field(ge=0, le=1_000_000)]
FileSize = Annotated[Whole, Field(ge=0, le=10**15)]
"""Bytes of one file. The limit keeps sums of sizes within 64 bits."""

Fraction = Annotated[float, Field(ge=0, le=1), FINITE]
Megabytes = Annotated[float, Field(ge=0, le=1e9), FINITE]
Seconds = Annotated[float, Field(ge=0, le=1e10), FINITE]
NonNegative = Annotated[float, Field(ge=0, le=1e12), FINITE]
Day = Annotated[float, Field(gt=0, le=86_400), FINITE]
"""At most a day, in s: for intervals of something that must happen at least that often."""


T = TypeVar("T")


class FieldMark(Enum):
    """Properties of a field's column besides its type."""

    SETTABLE = auto()
    """A decision may set it."""
    LONG = auto()
    """It has 64 bits."""
    ELSEWHERE = auto()
    """It has no column that is read with the record. A reader gives another value than the default."""


Settable = Annotated[T, FieldMark.SETTABLE]
Elsewhere = Annotated[T, FieldMark.ELSEWHERE]
RecordId = Annotated[int, FieldMark.LONG]
"""The number of a record."""
Bytes = Annotated[int, FieldMark.LONG]
