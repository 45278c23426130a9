"""Names are looked for by their beginning: by an index on both databases, each once, page by page."""

import random
from string import ascii_letters

import pytest
from sqlalchemy import select, text

from pilotage.adapters.movers.contract import ODD_NAMES
from pilotage.model.records.work import File, Replica
from pilotage.model.values.paths import is_file_name
from pilotage.store import Store
from pilotage.store.database.columns import begins
from pilotage.store.files import catalogue as reads
from pilotage.store.files.table import files
from pilotage.testing.stores import create

NAMES = sorted(
    f"a:{name}"
    for name in ("b", "B", "b-1", "b/1", "b/10", "b/2", "b_2", "B/x", "ba", "b=1", "b~1", "c", "_c")
)
"""In an order that no language has."""


@pytest.mark.parametrize("page", [1, 2, 100])
@pytest.mark.parametrize("prefix", ["a:", "a:b", "a:b/", "a:B", "a:z"])
def test_names_that_begin_alike_are_found_once_each_in_pages(
    store: Store, monkeypatch: pytest.MonkeyPatch, page: int, prefix: str
) -> None:
    create(store, *(File(name=name, size=1, checksum="") for name in ("A:b", *NAMES, "aa:b", "b:b")))
    monkeypatch.setattr(reads, "PAGE", page)
    wanted = [name for name in NAMES if name.startswith(prefix)]
    found = store.catalogue.matching(prefix, lambda _: True, "", 100)
    assert [one.file.name for one in found] == wanted
    after, told = "", []
    while some := store.catalogue.matching(prefix, lambda _: True, after, page):
        told += [one.file.name for one in some]
        after = told[-1]
    assert told == wanted


def test_postgresql_finds_them_by_an_index_in_their_order(postgresql_url: str) -> None:
    store = Store.open(postgresql_url)
    query = select(files).where(begins(files.c.name, "a:b/", "")).order_by(files.c.name)
    statement = query.compile(dialect=store.database.engine.dialect, compile_kwargs={"literal_binds": True})
    with store.database.engine.begin() as connection:
        # A table of a few rows is read whole, whatever its indexes.
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        connection.execute(text("SET LOCAL enable_bitmapscan = off"))
        plan = [row[0] for row in connection.exec_driver_sql(f"EXPLAIN {statement}".replace("%", "%%"))]
    store.close()
    assert "Index Scan using files_pkey" in plan[0]
    assert "Index Cond" in plan[1]


@pytest.mark.parametrize(
    "prefix",
    ["", "odd/", "odd/Pr", "odd/Pr\u00fc", "odd/\u65e5\u672c\u8a9e \U0001f600", "odd/100%", "odd/\U0010ffff"],
)
def test_odd_names_are_kept_byte_by_byte_and_found_by_their_beginning(store: Store, prefix: str) -> None:
    names = sorted(f"a:odd/{name}" for name in (*ODD_NAMES, "\U0010ffff", "\U0010ffff\U0010ffff"))
    create(store, *(File(name=name, size=1, checksum="") for name in names))
    create(store, *(Replica(file=name, storage="north-disk", path=name[2:]) for name in names))
    found = store.catalogue.matching(f"a:{prefix}", lambda _: True, "", 100)
    assert [one.file.name for one in found] == [name for name in names if name.startswith(f"a:{prefix}")]
    assert all(one.replicas[0].place == one.file.name[2:] for one in found)


def test_the_longest_name_fits_both_databases_and_their_indexes(store: Store) -> None:
    letters = random.Random(7)
    name = "".join(chr(letters.randrange(0x20000, 0x2A000)) for _ in range(250))
    assert is_file_name(name)
    assert not is_file_name(f"{name}x")
    scope = "".join(letters.choice(ascii_letters) for _ in range(410))
    create(store, File(name=f"{scope}:{name}", size=1, checksum=""))
    create(store, Replica(file=f"{scope}:{name}", storage="s" * 200, path=""))
    assert store.catalogue.entry(f"{scope}:{name}") is not None


def test_postgresql_finds_transfers_by_the_hash_of_their_file(postgresql_url: str) -> None:
    store = Store.open(postgresql_url)
    with store.database.engine.begin() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        for condition in ("= 'a:b'", "= ANY ('{a:b,a:c}'::TEXT[])"):
            plan = connection.execute(text(f"EXPLAIN SELECT id FROM transfers WHERE file {condition}"))
            assert "transfers_by_file" in "".join(row[0] for row in plan), condition
    store.close()
