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


def submit(htcondor2: Any, schedd: Any, request: Arguments) -> dict[str, Any]:
    """Submit a job for each of ``items``, all in one cluster. With ``spool``, send their files too."""
    description = htcondor2.Submit(dict(request["description"]))
    cluster = schedd.submit(description, spool=request["spool"], itemdata=iter(request["items"]))
    if request["spool"]:
        try:
            schedd.spool(cluster)
        except Exception:
            # Jobs without their files would stay held for ever.
            schedd.act(htcondor2.JobAction.Remove, str(cluster.cluster()), "its files could not be sent")
            raise
    return {"cluster": cluster.cluster(), "first": cluster.first_proc()}


def query(htcondor2: Any, schedd: Any, request: Arguments) -> dict[str, Any]:
    """Return the attributes of ``projection`` for all jobs that match ``constraint``."""
    options = htcondor2.QueryOpt.IncludeClusterAd if request["clusters"] else htcondor2.QueryOpt.Default
    ads = schedd.query(request["constraint"], list(request["projection"]), opts=options)
    plain = (str, int, float, bool)
    return {
        "ads": [
            {name: ad[name] for name in request["projection"] if isinstance(ad.get(name), plain)}
            for ad in ads
        ]
    }


def slots(htcondor2: Any, _: Any, request: Arguments) -> dict[str, Any]:
    """Return the size of each slot of the pool. A slot cut out of a larger one counts as part of that."""
    collector = htcondor2.Collector(request["collector"] or None)
    names = ["TotalSlotCpus", "TotalSlotMemory"]
    ads = collector.query(htcondor2.AdType.Startd, 'SlotType =!= "Dynamic"', names)
    return {"slots": [[ad.get(name) for name in names] for ad in ads]}


def remove(htcondor2: Any, schedd: Any, request: Arguments) -> dict[str, Any]:
    """Remove all jobs that match ``constraint``."""
    schedd.act(htcondor2.JobAction.Remove, request["constraint"], "cancelled by Pilotage")
    return {}


CALLS: Mapping[str, Callable[[Any, Any, Arguments], dict[str, Any]]] = {
    "submit": submit,
    "query": query,
    "remove": remove,
    "slots": slots,
}


def answer(htcondor2: Any, request: Arguments) -> dict[str, Any]:
    """Send a request to the named schedd. ``reached`` is true if the schedd was found."""
    reached = False
    try:
        location = None
        if request["collector"] or request["schedd"]:
            collector = htcondor2.Collector(request["collector"] or None)
            location = collector.locate(htcondor2.DaemonType.Schedd, request["schedd"] or None)
        schedd = htcondor2.Schedd(location)
        reached = True
        return CALLS[request["call"]](htcondor2, schedd, request)
    except Exception as error:  # the client raises of many kinds
        return {"error": f"{type(error).__name__}: {error}"[:1000], "reached": reached}


def main() -> None:
    """Answer one request."""
    warnings.simplefilter("ignore")
    request = json.load(sys.stdin)
    try:
        import htcondor2
    except ImportError:
        document: dict[str, Any] = {"error": not_installed("htcondor", "htcondor"), "reached": False}
    else:
        document = answer(htcondor2, request)
    json.dump(document, sys.stdout)


if __name__ == "__main__":
    main()
