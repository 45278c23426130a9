"""Progress of outputs into their tasks' datasets, and obstacles for the rest."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pilotage.model.documents.remarks import Remark
from pilotage.model.records.publications import Publication, PublishedDataset, published_name
from pilotage.model.records.states import LIVE_TASKS, PublicationState, TaskState
from pilotage.model.values.phrases import duration, plural


def of_task(task: int, dataset: str, found: PublishedDataset, time: float) -> Iterator[Remark]:
    """Yield the progress of a dataset of a task's outputs. ``time`` is in s since 1970."""
    counted = [f"{found.files[state].files} {state}" for state in PublicationState if state in found.files]
    yield _remark(task, f"outputs in {dataset}: {', '.join(counted) or 'none yet'}; {_whole(found.closing)}")
    waiting = found.files.get(PublicationState.WAITING)
    if waiting and waiting.error:
        wait = duration(waiting.wake_at - time)
        text = f"not published yet, tried again in {wait}: {waiting.error}"
        yield replace(_remark(task, text), until=waiting.wake_at)
    failed, closing = found.files.get(PublicationState.FAILED), found.closing
    if failed:
        yield _failed(task, f"{plural(failed.files, 'output')} not published: {failed.error}")
    if closing and closing.error and closing.state is not PublicationState.PUBLISHED:
        made = _failed if closing.state is PublicationState.FAILED else _remark
        yield made(task, f"the dataset is not closed: {closing.error}")


def of_own(task: int, state: TaskState, made: str, closing: Publication | None) -> Remark:
    """Return the state of this catalogue's dataset for a task's outputs.

    ``made`` is the version made of it.
    """
    if closing is None:
        ended = f"no version is made of a task that has {state}"
        then = ended if state not in LIVE_TASKS else "made when the task has finished"
        return _remark(task, f"outputs in {made}: {then}")
    if closing.state is PublicationState.PUBLISHED:
        return _remark(task, f"outputs are the dataset {made}")
    text = f"outputs in {made}: not made yet" + (f": {closing.error}" if closing.error else "")
    return _failed(task, text) if closing.state is PublicationState.FAILED else _remark(task, text)


def _remark(task: int, text: str) -> Remark:
    return Remark(kind="publication", subject=f"task:{task}", text=text)


def _failed(task: int, text: str) -> Remark:
    """Return a remark on what is registered again once its obstacle is removed."""
    return replace(
        _remark(task, f"{text}; once that is mended, register it again"),
        mend="user",
        command=f"pilotage publish {task}",
    )


def next_version(task: int, newest: str, author: str) -> str:
    """Return what becomes of a dataset whose ``newest`` version others made, when a retried task finishes."""
    return f"{newest}, made by {author}, stays; the outputs of task {task} become the next version"


def of_file(found: Sequence[Publication]) -> Iterator[str]:
    """Yield where a file is registered, or why it is not."""
    for one in found:
        error = f": {one.error}" if one.error else ""
        yield f"{one.state} in {one.dataset} as {published_name(one.dataset, one.file)}{error}"


def _whole(closing: Publication | None) -> str:
    if closing is None:
        return "the dataset is closed when the task has finished"
    return "closed" if closing.state is PublicationState.PUBLISHED else "to be closed"
