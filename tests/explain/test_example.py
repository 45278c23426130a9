"""The example of the page on brokerage, run: weights, places and the reason are those that the page shows."""

from pathlib import Path

from pilotage.explain.analysis import explain
from pilotage.explain.rendering import lines
from pilotage.model.records.federation import Link
from pilotage.model.records.work import File, Replica
from pilotage.testing import NOW, federation, jobs, jobs_at, queue, queue_report, task, waiting_on_link, world
from pilotage.testing.choices import only_choice

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "brokerage.md"
HOUSE = federation(
    [
        queue("HOME", computing_element=None, max_memory=4000),
        queue("LAB", site="LAB", computing_element=None, max_memory=4000),
        queue("TINY", site="LAB", computing_element=None, max_memory=100),
    ],
    links=[Link(source="LAB", destination="HOME", throughput_1h=80)],
)


def test_b30_to_b38_the_example_of_the_page_is_what_explain_says() -> None:
    asked = task(nucleus="HOME", ram=1000)
    names = [[f"in.{job}.{number}" for number in range(10)] for job in range(40)]
    every = [name for of_job in names for name in of_job]
    state = world(
        HOUSE,
        asked,
        jobs=(jobs(asked, first=place, inputs=tuple(of_job))[0] for place, of_job in enumerate(names, 1)),
        files=(File(name=name, size=1_000_000_000, checksum="") for name in every),
        replicas=(
            *(Replica(file=name, storage="LAB-DISK") for name in every),
            *(Replica(file=name, storage="HOME-DISK") for of_job in names for name in of_job[:5]),
        ),
        job_counts=(
            *jobs_at("HOME", running=40, activated=10, assigned=5),
            *jobs_at("LAB", running=20, activated=5, assigned=15),
        ),
        link_counts=waiting_on_link(30, "LAB"),
        queue_reports=(queue_report(name, last_pilot=NOW) for name in ("HOME", "LAB", "TINY")),
    )
    shown = "".join(f"    {line}\n" for line in lines(explain(only_choice(state))))
    assert shown in PAGE.read_text(), shown
