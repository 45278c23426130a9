"""A DAG of Airflow: one operator submits a task, another waits for it without a worker of Airflow."""

# mypy: disallow-subclassing-any=False, warn-return-any=False

from collections.abc import AsyncIterator
from typing import Any

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, BaseSensorOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from pilotage.client import AsyncClient, Client


def submit(run_id: str) -> int:
    """Submit a task, and return its number: a retry of this operator gets the same one."""
    with Client() as client:
        command = ["sh", "-c", "sha256sum /etc/hostname > sums.txt"]
        return client.submit(name="sums", command=command, outputs=["sums.txt"], key=f"sums {run_id}").id


class TaskTrigger(BaseTrigger):
    """Waits for a task in Airflow's triggerer, beside thousands of others."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes it again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"number": self.number}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait."""
        async with AsyncClient() as client:
            (task,) = await client.wait([self.number])
            yield TriggerEvent({"state": task.state, "error": task.error})


class TaskSensor(BaseSensorOperator):
    """Waits for the task that another operator returned."""

    def __init__(self, *, submitter: str, **options: Any) -> None:
        super().__init__(**options)
        self.submitter = submitter

    def execute(self, context: Any) -> None:
        """Give the worker back until the task has ended."""
        number = context["ti"].xcom_pull(task_ids=self.submitter)
        self.defer(trigger=TaskTrigger(number), method_name="end")

    def end(self, context: Any, event: dict[str, str]) -> str:  # noqa: ARG002
        """Fail if the task did."""
        if event["state"] != "finished":
            raise RuntimeError(event["error"] or f"it has {event['state']}")
        return event["state"]


with DAG("sums", schedule=None) as dag:
    submitted = PythonOperator(task_id="submit", python_callable=submit)
    submitted >> TaskSensor(task_id="wait", submitter="submit")

if __name__ == "__main__":
    dag.test()
