"""How many outputs of a task are in its dataset, and why the others are not."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pilotage.model.documents.remarks import Remark
from pilotage.model.records.publications import Publication, PublishedDataset, published_name
from pilotage.model.records.states import LIVE_TASKS, PublicationState, TaskState
from pilotage.model.values.phrases import duration, plural


def of_task(task: int, dataset: str, progress: PublishedDataset, time: float) -> Iterator[Remark]:
    """Yield the progress of a dataset of a task's outputs. ``time`` is in s since 1970."""
    counted = [
        f"{progress.files[state].files} {state}" for state in PublicationState if state in progress.files
    ]
    yield _remark(
        task, f"outputs in {dataset}: {', '.join(counted) or 'none yet'}; {_whole(progress.closing)}"
    )
    waiting = progress.files.get(PublicationState.WAITING)
    if waiting and waiting.error:
        wait = duration(waiting.wake_at - time)
        text = f"not published yet, tried again in {wait}: {waiting.error}"
        yield replace(_remark(task, text), until=waiting.wake_at)
    failed, closing = progress.files.get(PublicationState.FAILED), progress.closing
    if failed:
        yield _failed(task, f"{plural(failed.files, 'output')} not published: {failed.error}")
    if closing and closing.error and closing.state is not PublicationState.PUBLISHED:
        make_remark = _failed if closing.state is PublicationState.FAILED else _remark
        yield make_remark(task, f"the dataset is not closed: {closing.error}")


def of_own(task: int, state: TaskState, version: str, closing: Publication | None) -> Remark:
    """Return the state of this catalogue's dataset for a task's outputs.

    ``version`` names the version that the outputs become.
    """
    if closing is None:
        ended = f"no version is made of a task that has {state}"
        then = ended if state not in LIVE_TASKS else "made when the task has finished"
        return _remark(task, f"outputs in {version}: {then}")
    if closing.state is PublicationState.PUBLISHED:
        return _remark(task, f"outputs are the dataset {version}")
    text = f"outputs in {version}: not made yet" + (f": {closing.error}" if closing.error else "")
    return _failed(task, text) if closing.state is PublicationState.FAILED else _remark(task, text)


def _remark(task: int, text: str) -> Remark:
    return Remark(kind="publication", subject=f"task:{task}", text=text)


def _failed(task: int, text: str) -> Remark:
    """Return a remark on a failure, with the command that registers the outputs again."""
    return replace(
        _remark(task, f"{text}; once that is mended, register it again"),
        mend="user",
        command=f"pilotage publish {task}",
    )


def next_version(task: int, newest: str, author: str) -> str:
    """Return the warning for a retry if another task made the ``newest`` version of the dataset."""
    return f"{newest}, made by {author}, stays; the outputs of task {task} become the next version"


def of_file(publications: Sequence[Publication]) -> Iterator[str]:
    """Yield where a file is registered, or why it is not."""
    for publication in publications:
        error = f": {publication.error}" if publication.error else ""
        name = published_name(publication.dataset, publication.file)
        yield f"{publication.state} in {publication.dataset} as {name}{error}"


def _whole(closing: Publication | None) -> str:
    if closing is None:
        return "the dataset is closed when the task has finished"
    return "closed" if closing.state is PublicationState.PUBLISHED else "to be closed"
