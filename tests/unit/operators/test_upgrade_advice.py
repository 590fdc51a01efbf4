"""A rescale that takes over what the figures of the stream advise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.model.codec import encode
from airflow_streaming.model.names import Layout
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.operators.upgrade import UpgradeStepOperator
from tests.unit.checkpoints.restoring import run_batches
from tests.unit.operators.checkpoints import checkpoint_of
from tests.unit.operators.test_upgrade_preflight import context, gates, look
from tests.unit.world import World

__all__ = ["gates"]

ADVISED: dict[str, Any] = {"size": {"executors": "advised"}, "conf": "", "same_code": True}
CONF = {"spark.executor.instances": "2", "spark.executor.cores": "2"}


@pytest.fixture
def sized(world: World) -> World:
    """Return a stream on two executors of two cores."""
    world.run(world.operator(conf=CONF))
    world.say()
    return world


def works(world: World, share: float, *, batches: int = 8) -> None:
    """Let its batches say which share of its time it works."""
    rows = [
        BatchProgress(
            query="revenue",
            batch_id=number,
            at="2026-01-01T00:00:00Z",
            input_rows=10,
            input_rows_per_second=100.0 * share,
            processed_rows_per_second=100.0,
            duration_ms=100,
        )
        for number in range(batches)
    ]
    path = Layout("orders").epoch(world.epoch().number, "progress/000001.jsonl")
    told = "\n".join(json.dumps(encode(row)) for row in rows)
    world.home.store.replace(path, told.encode())


def step(world: World, until: str) -> UpgradeStepOperator:
    return UpgradeStepOperator(
        task_id="switch",
        until=until,
        preflight_task_id="preflight",
        stream=world.spec(conf=CONF),
        size={"executors": "advised"},
    )


@pytest.mark.usefixtures("gates")
def test_the_advised_number_is_in_the_report_with_what_it_comes_from(sized: World) -> None:
    works(sized, 1.0)

    xcoms = look(sized, **ADVISED, stream=sized.spec(conf=CONF))

    (source,) = xcoms["preflight", "report"]["sizes"]
    assert (source["size"], source["value"]) == ("executors", "3")
    assert "'revenue' works 100% of its time" in xcoms["preflight", "markdown"]
    changed = xcoms["preflight", "report"]["differences"]
    assert changed == [
        {"what": "spark.executor.instances", "old": "2", "new": "3", "origin": "form"}
    ]


@pytest.mark.usefixtures("gates")
def test_every_later_task_means_the_number_of_the_report(sized: World) -> None:
    works(sized, 1.0)
    xcoms = look(sized, **ADVISED, stream=sized.spec(conf=CONF))
    works(sized, 0.1)

    proposed, _ = step(sized, "launched").hook(context(xcoms, "switch")).proposal()

    assert proposed.fingerprint == xcoms["preflight", "report"]["fingerprint"]
    assert proposed.conf["spark.executor.instances"] == "3"


@pytest.mark.usefixtures("gates")
@pytest.mark.parametrize(
    ("share", "batches", "why"),
    [
        pytest.param(0.6, 8, "works 60% of its time", id="it is well sized"),
        pytest.param(1.0, 3, "no query has had input in 5", id="too few batches"),
    ],
)
def test_without_advice_to_take_it_is_refused_with_the_reason(
    share: float, batches: int, why: str, sized: World
) -> None:
    works(sized, share, batches=batches)

    with pytest.raises(AirflowFailException, match=why):
        look(sized, **ADVISED, stream=sized.spec(conf=CONF))


@pytest.mark.usefixtures("gates")
def test_a_number_that_is_typed_stands_in_the_report_as_asked_for(sized: World) -> None:
    asked = {**ADVISED, "size": {"executors": "5", "executor_cores": ""}}

    xcoms = look(sized, **asked, stream=sized.spec(conf=CONF))

    (source,) = xcoms["preflight", "report"]["sizes"]
    assert (source["value"], source["source"]) == ("5", "As requested.")


@pytest.mark.usefixtures("gates")
def test_a_run_that_comes_again_means_the_number_it_has_begun_with(sized: World) -> None:
    run_batches(checkpoint_of(sized), 4)
    works(sized, 1.0)
    xcoms = look(sized, **ADVISED, stream=sized.spec(conf=CONF))
    step(sized, "backed_up").execute(context(xcoms, "switch"))
    works(sized, 0.1)

    again = look(sized, **ADVISED, stream=sized.spec(conf=CONF))

    assert again["preflight", "report"]["resumes"] == 1
