"""One comparison says which jobs a pilot could run, for values and for columns (P7, P13)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pilotage.model.records.work import Requirements
from pilotage.policies.pilots.fitting import NeedsTable, fits, needs, offered, promised
from pilotage.testing import ALICE, BOB, pilot, queue, request, requirements

wanted = st.builds(
    requirements,
    st.sampled_from([ALICE, BOB]),
    cores=st.integers(1, 4),
    memory=st.sampled_from([0, 500, 2000]),
    cpu_time=st.sampled_from([6000, 864_000]),
    private=st.booleans(),
    gpus=st.sampled_from([0, 1]),
    container=st.booleans(),
)
offers = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["generic", "private"]),
        "owner": st.sampled_from([ALICE, BOB]),
        "cores": st.integers(0, 4),
        "memory": st.sampled_from([0, 1000, 5000]),
        "gpus": st.sampled_from([0, 2]),
        "containers": st.booleans(),
        "walltime": st.sampled_from([100, 1000, 100_000]),
    }
)


@given(st.lists(wanted, max_size=8), offers)
def test_p7_columns_fit_where_each_of_their_rows_does(texts: list[str], offer: dict[str, Any]) -> None:
    at = queue()
    rows = [needs(Requirements.from_text(text), at) for text in texts]
    for has in (offered(request(**offer), pilot(matched=1)), promised(pilot(cores=2, memory=1000))):
        table = NeedsTable(rows)
        assert table.fitting(has).tolist() == [bool(fits(row, has)) for row in rows]
        if fits(table.most, has):
            assert table.fitting(has).all(), "who could run the most that any needs could run all"


def test_p7_a_private_pilot_runs_its_owners_work_alone_and_a_generic_one_all_that_is_not_private() -> None:
    own, other = needs(Requirements.from_text(requirements(ALICE)), queue()), requirements(BOB, private=True)
    private = needs(Requirements.from_text(other), queue())
    alices = offered(request(kind="private", owner=ALICE), pilot())
    assert (bool(fits(own, alices)), bool(fits(private, alices))) == (True, False)
    assert bool(fits(own, offered(request(), pilot())))
    assert not fits(private, offered(request(), pilot()))
