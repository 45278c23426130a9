"""The last simulation that a person started on the page, on any server."""

from dataclasses import replace

from pilotage.store import Store, StoredSimulation

MOST_TIME = 600.0
"""Seconds after which a command of a simulation is ended."""

LONGEST = 2 * MOST_TIME + 60.0
"""Seconds after which a simulation without an end counts as broken off by its server's end."""


def last_simulation(store: Store, person: str, now: float) -> StoredSimulation | None:
    """Return the last simulation of a person; None if none was started within a day."""
    simulation = store.simulations.of(person, now)
    if simulation is None or simulation.ended is not None or now - simulation.begun < LONGEST:
        return simulation
    lost = replace(simulation.result, fault="its server ended before it did; start it again")
    return replace(simulation, ended=now, result=lost)
