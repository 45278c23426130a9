"""``python -m tests.chaos --minutes 5 --seed 7``: a storm on a real system. It exits with 1 after a fault."""

import argparse
import random
import signal
import sys

from .faults import KINDS as FAULTS
from .plan import planned
from .storm import Storm
from .system import running
from .work import KINDS as WORK


def main() -> int:
    """Run a storm, and print its report."""
    options = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    options.add_argument("--minutes", type=float, default=5, help="how long faults strike (default: 5)")
    options.add_argument("--seed", type=int, help="the seed of the plan (default: a random one)")
    options.add_argument("--only", default="", help="kinds of faults, with commas between (default: all)")
    told = options.parse_args()
    seed = random.SystemRandom().randrange(10**6) if told.seed is None else told.seed
    kinds = [kind.strip() for kind in told.only.split(",") if kind.strip()] or sorted(FAULTS)
    if unknown := sorted(set(kinds) - set(FAULTS)):
        options.error(f"there is no fault {unknown[0]!r}; known are {', '.join(sorted(FAULTS))}")
    if not told.minutes > 0:
        options.error("--minutes must be above 0")
    # Whoever ends it with SIGTERM wants everything to end that it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    plan = planned(seed, told.minutes * 60, {kind: FAULTS[kind].span for kind in kinds}, sorted(WORK))
    print(f"seed {seed}: {len(plan.strikes)} faults, {len(plan.arrivals)} submissions", flush=True)
    with running() as system:
        try:
            outcome = Storm(plan, system).run()
        except BaseException:
            print(system.last_words())
            print(f"the storm of seed {seed} ended early; its files are in {system.place}")
            raise
        if outcome.faults:
            system.is_kept = True
            print(f"{system.last_words()}\nfiles are in {system.place}")
    print("\n".join(outcome.lines()))
    if outcome.faults:
        print(f"again: make chaos MINUTES={told.minutes:g} SEED={seed}")
    return bool(outcome.faults)


if __name__ == "__main__":
    sys.exit(main())
