"""What the job that repartitions state makes of Spark's errors, which py4j hides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.driver.jobs import repartition as job
from airflow_streaming.model.jobs.upkeep import RepartitionOrder
from airflow_streaming.model.storage import LocalStore

ORDER = RepartitionOrder(checkpoints=("/a", "/b"), partitions=8, answer="/answer", seconds=60.0)


class Java:
    """An exception of Java, as py4j shows it."""

    def __init__(self, message: str, condition: str | None = None, cause: Any = None) -> None:
        self._message, self._condition, self._cause = message, condition, cause

    def getMessage(self) -> str:
        return self._message

    def getCause(self) -> Any:
        return self._cause

    def getCondition(self) -> str:
        if self._condition is None:
            raise AttributeError("Method getCondition does not exist.")
        return self._condition


class Py4JJavaError(Exception):
    """What py4j raises: its own words, then the exception of Java with its stack."""

    def __init__(self, java: Java) -> None:
        said = f"java.lang.RuntimeException: {java.getMessage()}\n\tat a.B.c(B.scala:1)"
        super().__init__(f"An error occurred while calling o1.repartition.\n: {said}")
        self.java_exception = java


def refused(condition: str) -> Py4JJavaError:
    return Py4JJavaError(Java("It failed.", cause=Java("No.", condition)))


def test_the_condition_of_the_cause_is_the_answer_s(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def does(session: Any, checkpoint: str, partitions: int) -> None:
        done.append(checkpoint)
        if checkpoint == "/b":
            raise refused("STATE_REPARTITION_INVALID_CHECKPOINT.UNSUPPORTED_PROVIDER")

    monkeypatch.setattr(job, "repartition", does)
    answer = job.answered(None, ORDER)

    assert done == ["/a", "/b"]
    assert answer.condition == "STATE_REPARTITION_INVALID_CHECKPOINT.UNSUPPORTED_PROVIDER"
    assert answer.failed.startswith("/b: ")
    assert "It failed." in answer.failed
    assert "o1.repartition" not in answer.failed


def test_what_has_the_number_already_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def does(session: Any, checkpoint: str, partitions: int) -> None:
        raise refused(job.DONE_ALREADY)

    monkeypatch.setattr(job, "repartition", does)

    assert job.answered(None, ORDER).condition == ""


@pytest.mark.parametrize(
    ("planned", "committed", "is_removed"),
    [
        pytest.param(5, 4, True, id="planned, and the one before committed"),
        pytest.param(5, 5, False, id="committed"),
        pytest.param(6, 5, False, id="a later one is planned"),
        pytest.param(5, 3, False, id="the one before it is not committed"),
        pytest.param(4, 4, False, id="gone already"),
    ],
)
def test_the_plan_of_a_batch_that_nobody_has_begun_is_removed(
    tmp_path: Path, planned: int, committed: int, is_removed: bool
) -> None:
    store = LocalStore(str(tmp_path))
    for log, newest in (("offsets", planned), ("commits", committed)):
        for batch in range(newest + 1):
            store.create(f"{log}/{batch}", b"v1")

    assert job.remove_plan(store, 5) is is_removed

    left = planned - 1 if is_removed else planned
    assert job.newest_batch(store.names("offsets")) == left
    assert job.newest_batch(store.names("commits")) == committed


def test_an_error_of_python_is_named_by_its_class() -> None:
    assert job.condition_of(ValueError("no")) == "ValueError"
