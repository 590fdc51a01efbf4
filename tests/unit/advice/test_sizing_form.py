"""What a form takes over of the advice on the size, and when there is nothing to take."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.advice.sizing import Size, advised_executors
from airflow_streaming.exceptions import SpecError
from tests.unit.advice.test_sizing import batches

FIXED = {"spark.executor.instances": "2", "spark.executor.cores": "2"}
BUSY, FINE, IDLE = [9_000] * 8, [6_000] * 8, [500] * 8


def size(**changes: Any) -> Size:
    return Size(**{"cores": 4, "intervals_s": {"q": 10.0}, **changes})


@pytest.mark.parametrize(
    ("durations", "conf", "executors"),
    [
        pytest.param(BUSY, FIXED, "3", id="more cores, in whole executors"),
        pytest.param(IDLE, FIXED, "1", id="fewer"),
    ],
)
def test_cores_become_whole_executors(
    durations: list[int], conf: dict[str, str], executors: str
) -> None:
    taken = advised_executors({"q": batches(durations)}, size(), conf)

    assert (taken.size, taken.value) == ("executors", executors)
    assert "the last 8 batches" in taken.source
    assert "4 cores now" in taken.source


@pytest.mark.parametrize(
    ("durations", "had", "conf", "why"),
    [
        pytest.param(FINE, size(), FIXED, "'q', works 60% of its time", id="well sized"),
        pytest.param(BUSY[:4], size(), FIXED, "no query has had input in 5", id="too few batches"),
        pytest.param([], size(), FIXED, "no query has had input in 5", id="nothing read"),
        pytest.param(BUSY, size(cores=None), {}, "does not fix the cores", id="cores unknown"),
        pytest.param(BUSY, size(), {"spark.master": "local[4]"}, "6 advised", id="no executors"),
        pytest.param(
            BUSY, size(), {**FIXED, "spark.cores.max": "4", "spark.executor.cores": "1"},
            "do not come from", id="bounded by the cluster",
        ),
        pytest.param(
            BUSY, size(), {**FIXED, "spark.dynamicAllocation.enabled": "true"},
            "do not come from", id="Spark chooses",
        ),
        pytest.param(
            [1_500] * 8, size(cores=6),
            {"spark.executor.instances": "1", "spark.executor.cores": "6"},
            "the present 1 executors", id="less than one executor",
        ),
    ],
)  # fmt: skip
def test_where_no_number_of_executors_follows_it_says_why(
    durations: list[int], had: Size, conf: dict[str, str], why: str
) -> None:
    with pytest.raises(SpecError) as refused:
        advised_executors({"q": batches(durations)}, had, conf)

    assert why in str(refused.value)


def test_one_query_without_a_pace_stops_the_advice() -> None:
    silent = batches(BUSY, processed=None)

    with pytest.raises(SpecError, match="'silent' does not report"):
        advised_executors({"q": batches(BUSY), "silent": silent}, size(), FIXED)
