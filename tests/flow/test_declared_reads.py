"""What a step declares is what its policies read: they have nothing else, and nothing is read in vain."""

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from pilotage.flow.reads import OUTSIDE
from pilotage.flow.step import Phase, Step, always, take
from pilotage.flow.steps import STEPS
from pilotage.model.documents.decision import Decision
from pilotage.model.documents.world import World
from pilotage.store.worlds.fields import parts_of
from pilotage.store.worlds.parts import ALWAYS, WorldPart, only_where
from pilotage.store.worlds.whole import WHOLE
from tests.docs.modules import SOURCE, modules
from tests.watched_reads import FIELDS, UndeclaredRead

from .house import House

POLICIES = ("policies/", "model/rules/", "model/records/")
BROKERAGES = ("policies/brokerage/production/", "policies/brokerage/matchmaking/")
"""What decides for the steps that ask plugins, beside what they import."""


def reading(*reads: str | WorldPart) -> Step:
    """A step that reads some fields, and whose policy looks at jobs by queue."""

    def look(world: World) -> Decision:
        assert world.job_counts == ()
        return Decision(step="toy", time=world.time, seed=world.seed)

    return Step(
        name="toy",
        place=99,
        summary="Look at jobs.",
        reads=reads,
        phases=always(Phase(actor="toy", decide=look)),
        idle=lambda _: iter(()),
    )


def test_a_policy_that_reads_what_its_step_does_not_declare_fails(house: House) -> None:
    with pytest.raises(UndeclaredRead, match=r"step toy reads world\.job_counts, and does not declare it"):
        take(reading("storage_spaces"), house.runtime, house.runtime.begin(10))
    assert take(reading("storage_spaces", "job_counts"), house.runtime, house.runtime.begin(10)) == 0


def test_a_step_with_a_field_that_nobody_can_read_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ValueError, match=r"no field 'job_count' can be read by its name; .*job_counts"):
        reading("job_count")


def test_a_part_says_which_field_it_needs_and_which_it_may_give(house: House) -> None:
    now = house.runtime.begin(10)
    with pytest.raises(LookupError, match="'jobs' is not read yet: declare it before the part that needs it"):
        house.store.snapshots.read(now, ["tasks"])
    with pytest.raises(LookupError, match="returned pilots"):
        house.store.snapshots.read(now, [WorldPart(("jobs",), lambda _: {"pilots": ()})])
    with pytest.raises(ValueError, match="a world has no field job"):
        WorldPart(("job",), lambda _: {})


def test_what_is_declared_after_a_condition_is_read_only_where_it_holds(house: House) -> None:
    found: tuple[int, ...] = ()
    given = WorldPart(("lapsed",), lambda _: {"lapsed": found})
    parts = [given, only_where("lapsed"), WorldPart(("cleaned",), lambda _: {"cleaned": 5.0})]
    assert house.store.snapshots.read(house.runtime.begin(10), parts).cleaned is None
    found = (1,)
    assert house.store.snapshots.read(house.runtime.begin(10), parts).cleaned == 5


@cache
def attributes(name: str) -> frozenset[str]:
    """The attributes that a module reads, but where a step says why it is idle."""

    def nodes(tree: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(tree):
            if not (isinstance(child, ast.FunctionDef) and child.name == "_idle"):
                yield child
                yield from nodes(child)

    return frozenset(node.attr for node in nodes(modules()[name].tree) if isinstance(node, ast.Attribute))


@cache
def imported(name: str) -> frozenset[str]:
    """The modules of policies that a module imports, also where that is only at its first use."""
    here = ["pilotage", *name.split("/")[:-1]]
    found = set()
    for node in ast.walk(modules()[name].tree):
        if isinstance(node, ast.ImportFrom):
            base = (here[: len(here) - node.level + 1] if node.level else []) + (node.module or "").split(".")
            for words in ([*base, alias.name] for alias in node.names):
                path = "/".join(word for word in words if word).removeprefix("pilotage/")
                found |= {f"{path}.py", f"{path}/__init__.py", f"{path.rpartition('/')[0]}.py"}
    return frozenset(one for one in found if one.startswith(POLICIES) and one in modules())


def decides(step: Step) -> set[str]:
    """All modules that may decide for a step."""
    own = f"flow/steps/{step.name}.py"
    found, left = set(), [own, "flow/outside/removals.py"]
    if "rokerages" in modules()[own].text.partition("def _phases(world: World, brokerages")[1]:
        left += [name for name in modules() if name.startswith(BROKERAGES)]
        left.append("flow/steps/broker.py")
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += imported(name)
    return found


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_what_a_step_declares_some_policy_of_it_reads(step: Step) -> None:
    assert FIELDS > step.fields > ALWAYS
    read = frozenset().union(*map(attributes, decides(step)))
    for name, of in vars(World).items():
        if isinstance(of, property) and of.fget and name in read:
            read |= set(of.fget.__code__.co_names)
    assert sorted(step.fields - ALWAYS - read) == [], "the step reads these, and nobody looks at them"
    assert (SOURCE / "flow" / "steps" / f"{step.name}.py").exists()


def test_a_saved_world_has_all_that_the_store_and_the_outside_can_tell() -> None:
    """But for what is asked about some records of one pass or call, and what one process alone knows."""
    whole = {name for one in parts_of(WHOLE) for name in one.fields}
    others = {"ahead", "held_places", "heartbeats", "unable"}
    assert FIELDS - ALWAYS - whole - OUTSIDE.keys() == others
