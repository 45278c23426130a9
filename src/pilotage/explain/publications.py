"""Progress of outputs into their tasks' datasets, and obstacles for the rest."""

from collections.abc import Iterator, Sequence

from pilotage.model.records.publications import Publication, PublishedDataset, published_name
from pilotage.model.records.states import LIVE_TASKS, PublicationState, TaskState
from pilotage.model.values.phrases import duration, plural


def of_task(task: int, dataset: str, found: PublishedDataset, time: float) -> Iterator[str]:
    """Yield the progress of a dataset of a task's outputs. ``time`` is in s since 1970."""
    counted = [f"{found.files[state].files} {state}" for state in PublicationState if state in found.files]
    yield f"outputs in {dataset}: {', '.join(counted) or 'none yet'}; {_whole(found.closing)}"
    waiting = found.files.get(PublicationState.WAITING)
    if waiting and waiting.error:
        wait = duration(waiting.wake_at - time)
        yield f"not published yet, tried again in {wait}: {waiting.error}"
    failed = found.files.get(PublicationState.FAILED)
    if failed:
        yield f"{plural(failed.files, 'output')} not published: {failed.error}"
    closing = found.closing
    if closing and closing.error and closing.state is not PublicationState.PUBLISHED:
        yield f"the dataset is not closed: {closing.error}"
    if failed or (closing and closing.state is PublicationState.FAILED):
        yield f"once that is mended: pilotage publish {task}"


def of_own(task: int, state: TaskState, made: str, closing: Publication | None) -> Iterator[str]:
    """Yield the state of this catalogue's dataset for a task's outputs.

    ``made`` is the version made of it.
    """
    if closing is None:
        ended = f"no version is made of a task that has {state}"
        yield f"outputs in {made}: {ended if state not in LIVE_TASKS else 'made when the task has finished'}"
    elif closing.state is PublicationState.PUBLISHED:
        yield f"outputs are the dataset {made}"
    else:
        yield f"outputs in {made}: not made yet" + (f": {closing.error}" if closing.error else "")
        if closing.state is PublicationState.FAILED:
            yield f"once that is mended: pilotage publish {task}"


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
