"""Read the parameters of a task from a CSV file. Its first line has their names."""

import csv
import io
from pathlib import Path as FilePath

from pilotage.federation.faults import BadFile, FileFault
from pilotage.model.values.parameter_bounds import MOST_BYTES, MOST_ROWS


def rows_of(path: FilePath, text: str) -> list[dict[str, str]]:
    """Return the rows of a CSV file, or of one with tabs if its name ends in ``.tsv``.

    Raises ``BadFile`` with the line of the first fault, and stops at the first row too many.
    """

    def bad(line: int, message: str, remedy: str) -> BadFile:
        return BadFile([FileFault(str(path), line, "", message, remedy)])

    delimiter = "\t" if path.suffix == ".tsv" else ","
    lines = csv.reader(
        io.StringIO(text.removeprefix("\ufeff"), newline=""),
        delimiter=delimiter,
        skipinitialspace=True,
        strict=True,
    )
    names: list[str] = []
    rows: list[dict[str, str]] = []
    try:
        for cells in lines:
            if not any(cell.strip() for cell in cells):  # as spreadsheets leave emptied rows
                continue
            if not names:
                names = [cell.strip() for cell in cells]
                if fault := _fault_of_names(names):
                    raise bad(lines.line_num, *fault)
                continue
            if len(cells) != len(names):
                remedy = "give each row a value for every name, in quotes where it has a comma"
                raise bad(
                    lines.line_num, f"has {len(cells)} values, the first line {len(names)} names", remedy
                )
            if len(rows) == MOST_ROWS:
                raise bad(lines.line_num, f"has more than {MOST_ROWS} rows", "submit several tasks")
            rows.append(dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise bad(lines.line_num, f"is no CSV: {error}", "close every quote") from error
    if not rows:
        raise bad(1, "has no rows", "give the names in the first line, and a row for each job")
    return rows


def _fault_of_names(names: list[str]) -> tuple[str, str] | None:
    """Return the fault of a first line, and the remedy; None if it is right."""
    if len(names) == 1 and (separator := next((mark for mark in ";\t" if mark in names[0]), "")):
        return f"is separated by {separator!r}", "save it with commas, or with tabs as a file .tsv"
    twice = [name for name in names if names.count(name) > 1]
    return (f"has two columns {twice[0][:60]!r}", "keep one") if twice else None


MOST_FILE = 2 * MOST_BYTES
"""Most bytes of such a file: values may be in quotes."""
