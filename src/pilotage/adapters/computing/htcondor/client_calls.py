"""The calls of HTCondor's client. Run as a module, this makes one call and ends.

The client blocks the interpreter while it waits for a daemon, and has one set of credentials per process. So
the server makes no call in its own process. The request is JSON on standard input, the answer JSON on
standard output.
"""

import json
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from pilotage.model.values.phrases import not_installed

Arguments = Mapping[str, Any]


def submit(htcondor2: Any, schedd: Any, asked: Arguments) -> dict[str, Any]:
    """Submit a job for each of ``items``, all in one cluster. Send their files too if the request says so."""
    description = htcondor2.Submit(dict(asked["description"]))
    made = schedd.submit(description, spool=asked["spool"], itemdata=iter(asked["items"]))
    if asked["spool"]:
        try:
            schedd.spool(made)
        except Exception:
            # Jobs without their files would stay held for ever.
            schedd.act(htcondor2.JobAction.Remove, str(made.cluster()), "its files could not be sent")
            raise
    return {"cluster": made.cluster(), "first": made.first_proc()}


def query(htcondor2: Any, schedd: Any, asked: Arguments) -> dict[str, Any]:
    """Return the attributes of ``projection`` for all jobs that match ``constraint``."""
    options = htcondor2.QueryOpt.IncludeClusterAd if asked["clusters"] else htcondor2.QueryOpt.Default
    ads = schedd.query(asked["constraint"], list(asked["projection"]), opts=options)
    plain = (str, int, float, bool)
    return {
        "ads": [
            {name: ad[name] for name in asked["projection"] if isinstance(ad.get(name), plain)} for ad in ads
        ]
    }


def slots(htcondor2: Any, _: Any, asked: Arguments) -> dict[str, Any]:
    """Return the size of each slot of the pool. A slot cut out of a larger one counts as part of that."""
    collector = htcondor2.Collector(asked["collector"] or None)
    names = ["TotalSlotCpus", "TotalSlotMemory"]
    ads = collector.query(htcondor2.AdType.Startd, 'SlotType =!= "Dynamic"', names)
    return {"slots": [[ad.get(name) for name in names] for ad in ads]}


def remove(htcondor2: Any, schedd: Any, asked: Arguments) -> dict[str, Any]:
    """Remove all jobs that match ``constraint``."""
    schedd.act(htcondor2.JobAction.Remove, asked["constraint"], "cancelled by Pilotage")
    return {}


CALLS: Mapping[str, Callable[[Any, Any, Arguments], dict[str, Any]]] = {
    "submit": submit,
    "query": query,
    "remove": remove,
    "slots": slots,
}


def answer(htcondor2: Any, asked: Arguments) -> dict[str, Any]:
    """Send a request to the named schedd. ``reached`` says whether the schedd was found."""
    reached = False
    try:
        location = None
        if asked["collector"] or asked["schedd"]:
            collector = htcondor2.Collector(asked["collector"] or None)
            location = collector.locate(htcondor2.DaemonType.Schedd, asked["schedd"] or None)
        schedd = htcondor2.Schedd(location)
        reached = True
        return CALLS[asked["call"]](htcondor2, schedd, asked)
    except Exception as error:  # the client raises of many kinds
        return {"error": f"{type(error).__name__}: {error}"[:1000], "reached": reached}


def main() -> None:
    """Answer one request."""
    warnings.simplefilter("ignore")
    asked = json.load(sys.stdin)
    try:
        import htcondor2
    except ImportError:
        told: dict[str, Any] = {"error": not_installed("htcondor", "htcondor"), "reached": False}
    else:
        told = answer(htcondor2, asked)
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
