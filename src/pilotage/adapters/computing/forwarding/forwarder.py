"""A forwarder: a pilot that hands its job to another Pilotage instead of running it."""

from __future__ import annotations

import argparse
import asyncio
import logging
from dataclasses import replace

from pilotage.adapters.computing.forwarding.forwarded_attempt import ForwardedAttempt, Handover
from pilotage.adapters.computing.forwarding.peer import Peer, Refused
from pilotage.adapters.computing.web_service import Credentials
from pilotage.agent import command
from pilotage.agent.client import PilotClient
from pilotage.agent.files.storage import open_storage
from pilotage.agent.jobs import JobRunner
from pilotage.agent.logs import OwnLog, stderr_tail
from pilotage.agent.machine import now
from pilotage.agent.node import Resources
from pilotage.agent.payload.attempt import AttemptFailedError, legal
from pilotage.agent.payload.payload import Ended
from pilotage.agent.pilot import PilotAgent
from pilotage.agent.pilot_job import PilotHost, PilotJob
from pilotage.agent.proof import Containment
from pilotage.agent.wire import Node, Offer, Report

log = logging.getLogger(__name__)

BRINGING = 600.0
"""Seconds for fetching outputs after the other Pilotage has them."""


class ForwardingRunner(JobRunner):
    """Runs the attempts of a forwarder, each at the other Pilotage."""

    def __init__(
        self, pilot: PilotHost, resources: Resources, client: PilotClient, peer: Peer, storage: str
    ) -> None:
        super().__init__(pilot, resources, client)
        self._peer = peer
        self._handover_storage = storage
        self._attempts: list[ForwardedAttempt] = []

    @property
    def may_run(self) -> bool:
        """Return whether one of our attempts may still run at the other side."""
        return any(attempt.may_run for attempt in self._attempts)

    async def _files_of(self, _: PilotJob) -> dict[str, str]:
        """Fetch nothing: the task's description carries the payload files to the other side."""
        return {}

    async def _run_payload(self, job: PilotJob) -> Ended:
        """Run an attempt at the other side.

        It ends for us only when it has surely ended, because a second attempt may follow.
        """
        place, loop = self._place(job), asyncio.get_running_loop()
        handover = await self._handed_over(job)
        running = Report(*job.attempt.pair, "running")
        forwarded = ForwardedAttempt(
            self._peer,
            handover,
            self.lease_end(job),
            lambda: loop.call_soon_threadsafe(self._pilot.say, running),
        )
        job.payload = forwarded
        self._attempts = [attempt for attempt in self._attempts if attempt.may_run] + [forwarded]
        if job.stopping:
            forwarded.stop(job.stopping)
        try:
            ended = await self._in_thread(forwarded.run)
            if not job.dropped:
                await self._in_thread(self._bring, job, forwarded, not ended.error)
        finally:
            while forwarded.may_run and not job.dropped:
                await asyncio.sleep(0.2)
            job.payload = None
            await self._in_thread(self._clear, job, handover, forwarded)
        return replace(ended, error=f"{ended.error}\n{stderr_tail(place)}".strip()) if ended.error else ended

    async def _handed_over(self, job: PilotJob) -> Handover:
        """Ask for the task's description, and put its inputs where the other Pilotage finds them.

        By then our server has heard that we have the job. Before that it would give the job to others sooner.
        """
        while not (job.is_confirmed or job.stopping):
            if now() > self.lease_end(job):
                raise AttemptFailedError("our server was not heard of until the job's lease was over")
            await asyncio.sleep(0.1)
        specification = await self._calls.answered(
            "its specification", job, lambda: self._client.specification(job.attempt.order.job)
        )
        handover = Handover(job.attempt, specification, self._handover_storage)
        await self._in_thread(self._lay_inputs, job, handover)
        return handover

    def _lay_inputs(self, job: PilotJob, handover: Handover) -> None:
        work, order = job.attempt.work, job.attempt.order
        if not order.inputs:
            return
        storage = open_storage(work.storage_url, work.storage_options)
        try:
            for file in order.inputs:
                with (self._place(job) / "inputs" / legal("input", file.name, deep=True)).open("rb") as local:
                    arrived = storage.write(f"{handover.folder}/{file.name}", local)
                if arrived not in (None, file.size):
                    raise OSError(f"{arrived} bytes of {file.name} arrived, {file.size} were sent")
        except OSError as error:
            raise AttemptFailedError(f"inputs cannot be handed over: {error}") from error

    def _bring(self, job: PilotJob, forwarded: ForwardedAttempt, outputs: bool) -> None:
        """Fetch the attempt's streams, and its ``outputs`` after success."""
        has_outputs = outputs and bool(job.attempt.work.outputs)
        until = now() + (BRINGING if has_outputs else 0)
        while True:
            try:
                forwarded.bring(self._place(job), has_outputs)
                return
            except (OSError, Refused) as error:
                if not has_outputs:
                    log.warning("job %s: its streams cannot be fetched: %s", job.attempt.name, error)
                    return
                if now() > until or job.stopping:
                    raise AttemptFailedError(f"outputs cannot be fetched: {error}") from error
                forwarded.pause()

    def _clear(self, job: PilotJob, handover: Handover, forwarded: ForwardedAttempt) -> None:
        """Remove the inputs of earlier attempts, and of this one unless the other side may still run it."""
        work, order = job.attempt.work, job.attempt.order
        last = order.attempt - 1 if forwarded.may_run else order.attempt
        for number in range(1, last + 1) if order.inputs else ():
            try:
                folder = handover.folder.rpartition("/")[0]
                open_storage(work.storage_url, work.storage_options).remove(f"{folder}/{order.job}.{number}")
            except OSError as error:
                log.warning("inputs of job %s.%d are left at the storage: %s", order.job, number, error)


class Forwarder(PilotAgent):
    """A pilot that holds one job at a time, which runs elsewhere."""

    def __init__(
        self, resources: Resources, client: PilotClient, own_log: OwnLog, peer: Peer, storage: str
    ) -> None:
        self._forwarding: ForwardingRunner

        def runner(pilot: PilotHost, share: Resources, caller: PilotClient) -> JobRunner:
            self._forwarding = ForwardingRunner(pilot, share, caller, peer, storage)
            return self._forwarding

        super().__init__(resources, client, own_log, runner)

    async def _prove(self) -> Containment:
        """Return no containment: nothing runs here, and we cannot promise anything for the other side."""
        return Containment()

    async def _try_containers(self) -> None:
        """Do nothing: the other Pilotage chooses a place that has containers."""
        self._ask.succeeded()
        self.wake()

    def _offer(self) -> Offer:
        return replace(super()._offer(), containers=True)

    async def _say_goodbye(self) -> None:
        """Stay silent while one of our attempts may run. The server gives its jobs to others after that."""
        if self._forwarding.may_run:
            log.warning("ends without telling the server: forwarded attempts may run until their lease ends")
            return
        await super()._say_goodbye()


def _parser() -> argparse.ArgumentParser:
    options = command.parser()
    options.description = "A forwarder: hands jobs to another Pilotage."
    options.add_argument("--peer", required=True, help="URL of the other Pilotage")
    options.add_argument("--peer-token-file", required=True, help="file with our token there")
    options.add_argument("--peer-storage", required=True, help="its name of the storage for our inputs")
    options.add_argument("--peer-ca", default="", help="authorities that are trusted")
    return options


def main() -> None:
    """Run one forwarder. Exit with 0 after a regular end, else with 1."""
    options = _parser().parse_args()
    peer = Peer(options.peer, Credentials(token_file=options.peer_token_file, ca_path=options.peer_ca))

    def forwarder(resources: Resources, client: PilotClient, own_log: OwnLog) -> Forwarder:
        return Forwarder(resources, client, own_log, peer, options.peer_storage)

    # Nothing runs on this node, so do not inspect it.
    command.run(options, lambda _: Node(), forwarder)


if __name__ == "__main__":
    main()
