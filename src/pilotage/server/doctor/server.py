"""Checks of a server through its API, as any client sees it."""

import time
from collections.abc import Callable, Iterator

from pilotage.release import full_version
from pilotage.server.doctor.checks import Finding, check, warning
from pilotage.server.doctor.installation import NO_FEDERATION, Installation, NotExamined

MOST_SKEW = 30.0
"""Seconds that clocks may differ before certificates, signatures and tokens suffer."""

LEAST_SKEW = 2.0
"""Seconds that clocks may differ before times in logs mislead."""

SET_CLOCK = "timedatectl set-ntp true, on the machine whose clock is wrong"


def seconds_ahead(read: Callable[[], float]) -> float:
    """Return how far a clock is ahead of this machine's, in s; 0 if the time to read it may explain that."""
    before = time.time()
    reading = read()
    after = time.time()
    ahead = reading - (before + after) / 2
    return ahead if abs(ahead) - (after - before) / 2 > LEAST_SKEW else 0.0


def skew(clock: str, ahead: float, effect: str, mend: str) -> Iterator[Finding]:
    """Yield a finding for a clock that is some seconds ahead of this machine's, or behind it."""
    if abs(ahead) > LEAST_SKEW:
        yield Finding(
            what=f"{clock} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this one",
            why=effect,
            mend=mend,
            severity="fault" if abs(ahead) > MOST_SKEW else "warning",
        )


@check("server", first=True)
def answers(installation: Installation) -> Iterator[Finding]:
    """Ask the server for a sign of life."""
    from pilotage.client import Client, ClientError

    url = installation.settings.url
    client = Client(settings=installation.settings)
    try:
        client.health()
    except ClientError as error:
        client.close()
        installation.lacks["server"] = f"no server answers at {url}"
        yield Finding(
            what=f"{installation.lacks['server']}: {error}",
            why="nobody can submit or look, and pilots cannot report",
            mend="pilotage up, on the server's machine; or export PILOTAGE_URL with the right address",
        )
    else:
        installation.client = client


@check("server version")
def same_version(installation: Installation) -> Iterator[Finding]:
    """Compare the server's version with this one."""
    server = installation.server.health()["version"]
    if server != full_version():
        yield warning(
            f"the server is version {server}, and this machine has {full_version()}",
            "commands and server may know different fields",
            "install the server's version here",
        )


@check("server clock")
def server_clock(installation: Installation) -> Iterator[Finding]:
    """Compare the server's clock with this machine's."""
    client = installation.server
    ahead = seconds_ahead(lambda: float(client.health().get("time") or time.time()))
    yield from skew(
        "the server's clock", ahead, "times that you read and give mean something else there", SET_CLOCK
    )


@check("server readiness")
def ready(installation: Installation) -> Iterator[Finding]:
    """Ask whether the server can do its work, and which loops fail."""
    readiness = installation.server.readiness()
    for problem in readiness["problems"]:
        yield Finding(what=problem, why="the server decides nothing meanwhile", mend="pilotage doctor, there")
    for loop, fault in readiness["failing_loops"].items():
        yield Finding(
            what=f"the loop {loop} fails: {fault}",
            why="what this loop does for jobs does not happen",
            mend="pilotage doctor, on the server's machine; its log has the whole error",
        )


@check("access")
def access(installation: Installation) -> Iterator[Finding]:
    """Ask whether the server accepts this machine's token, and has a federation."""
    from pilotage.client import Conflict, NotAllowed, NotSignedIn

    client = installation.server
    try:
        client.queues()
    except NotSignedIn as error:
        yield Finding(
            what=f"the server does not accept this token: {error}",
            why="it refuses your commands",
            mend="pilotage token create --role user --name NAME, on the server's machine",
        )
    except NotAllowed as error:
        yield warning(str(error), "most commands are for people", "export PILOTAGE_TOKEN with your own")
    except Conflict as error:
        yield Finding(
            what=str(error),
            why="no queue takes a job, and no task can be submitted",
            mend="on the server's machine: pilotage init; pilotage federation load FILE",
        )


@check("circuit breakers")
def breakers(installation: Installation) -> Iterator[Finding]:
    """Name places that rest because work failed there, and records that decisions fail on."""
    from pilotage.client import Conflict, NotSignedIn, RemarkRecord
    from pilotage.explain.remarks import sentence

    try:
        page = installation.server.breakers()
    except NotSignedIn as error:
        raise NotExamined("the server does not accept this token") from error
    except Conflict as error:
        raise NotExamined(NO_FEDERATION) from error
    for breaker in page:
        yield warning(
            f"{breaker['what']}: {breaker['reason']}",
            "work goes elsewhere, or waits",
            f"remove the cause; then: pilotage breakers lift {breaker['names'][0]}",
        )
    for remark in map(RemarkRecord, page.document.get("set_aside", ())):
        effect, mend = "this record waits, everything else goes on", "what the line says lifts it"
        yield warning(f"{remark.subject}: {sentence(remark)}", effect, remark.command or mend)
