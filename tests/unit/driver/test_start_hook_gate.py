from __future__ import annotations

import pytest

from airflow_streaming.driver.exit_status import ShutdownState, Stop
from airflow_streaming.driver.monitoring.queries import Queries
from airflow_streaming.driver.start_hook import Gate
from airflow_streaming.exceptions import StopRequested
from tests.unit.driver.fakes import BAD_ROW, FakeQuery, make_tracked

STOP = Stop(by="ann", reason="Enough.", grace=60)


def test_batches_pass_until_the_end_has_begun_and_the_fence_is_asked_each_time() -> None:
    asked: list[None] = []
    seen: list[tuple[object, int]] = []
    ending, queries = ShutdownState(), Queries()
    gate = Gate(lambda: asked.append(None), ending, queries)

    def write(batch: object, number: int) -> None:
        """Write a batch."""
        seen.append((batch, number))

    gated = gate.wrap(write, lambda: "q")
    assert gated.__doc__ == "Write a batch."
    gated("rows", 1)

    ending.ask_stop(STOP)
    with pytest.raises(StopRequested, match="Batch 2 of query 'q' was not begun"):
        gated("rows", 2)
    assert seen == [("rows", 1)]
    assert len(asked) == 3, "before and after the batch that ran, before the one that did not"


def test_a_function_is_given_shifted_ids_and_messages_tell_both() -> None:
    seen: list[int] = []
    ending, queries = ShutdownState(), Queries()
    queries.shift_batches("q", 40)
    gate = Gate(lambda: None, ending, queries)
    gated = gate.wrap(lambda _, number: seen.append(number), lambda: "q")
    other = gate.wrap(lambda _, number: seen.append(number), lambda: "other")
    gated("rows", 2)
    other("rows", 2)
    assert seen == [42, 2]

    ending.ask_stop(STOP)
    with pytest.raises(StopRequested, match=r"Batch 3 \(43 to its function\) of query 'q'"):
        gated("rows", 3)


def test_the_error_by_which_a_refused_query_ends_is_not_its_own() -> None:
    ending, queries, fake = ShutdownState(), Queries(), FakeQuery()
    tracked = make_tracked(fake, gated=True)
    queries.add(tracked)
    gate = Gate(lambda: None, ending, queries)
    ending.ask_stop(STOP)

    with pytest.raises(StopRequested):
        gate.enter("q", 5)
    fake.fail(BAD_ROW)
    queries.poll()

    assert queries.first_failed is None
    assert tracked.as_status().error is None
    assert tracked.as_status().message == "Stopped at a batch boundary."


@pytest.mark.parametrize(
    ("passed", "refused", "unbegun"),
    [
        pytest.param([4], 5, 5, id="planned after a batch that passed"),
        pytest.param([3, 4], 5, 5, id="after several"),
        pytest.param([], 5, None, id="the first of this driver: another may have begun it"),
        pytest.param([4, 5], 5, None, id="begun, failed, and tried again"),
        pytest.param([3], 5, None, id="a batch between passed elsewhere"),
    ],
)
def test_a_refused_batch_was_begun_by_nobody_if_the_one_before_it_passed(
    passed: list[int], refused: int, unbegun: int | None
) -> None:
    ending, queries, tracked = ShutdownState(), Queries(), make_tracked(FakeQuery(), gated=True)
    queries.add(tracked)
    gate = Gate(lambda: None, ending, queries)
    for batch in passed:
        gate.enter("q", batch)
    ending.ask_stop(STOP)

    with pytest.raises(StopRequested):
        gate.enter("q", refused)

    assert tracked.unbegun == unbegun


def test_a_lost_fence_comes_before_everything() -> None:
    class Fenced(BaseException):
        pass

    def check() -> None:
        raise Fenced

    with pytest.raises(Fenced):
        Gate(check, ShutdownState(), Queries()).enter("q", 1)
