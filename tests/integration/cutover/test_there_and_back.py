"""A cutover there and a handover back on a real Spark, with a consumer that reads all the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.model.arguments.choices import SwitchMethod
from demo.waiting import PATIENCE
from tests.system.cutovers.asked import Asked
from tests.system.cutovers.runs import Runs


@pytest.mark.nightly("Six minutes of CPU; the moves are tried with simulated lanes.")
def test_consumers_see_every_row_once_while_the_stream_goes_to_green_and_is_handed_back(
    tmp_path: Path, spark_4_3: Path
) -> None:
    with Runs(tmp_path, spark_4_3, "ledger") as runs:
        # Killed at some durable steps: a worker always finds what the last one has left.
        there = runs.play(
            Asked(
                number=1,
                way=SwitchMethod.PARALLEL,
                sink="ledger",
                every=30,
                first=15,
                deadline_s=PATIENCE,
                grace_s=PATIENCE,
            )
        )
        back = runs.play(
            Asked(
                number=2,
                way=SwitchMethod.HANDOVER,
                application="old",
                every=60,
                first=30,
                deadline_s=PATIENCE,
                grace_s=PATIENCE,
            )
        )

    check(there, live="orders.green")
    check(back, live="orders")
    if not back["killed_in_switch"]:
        # A driver that is handed the output at work costs less than one that has to start.
        assert back["without_fresh_s"] < runs.start_s, back


@pytest.mark.nightly("Three cutovers; the moves are tried with simulated lanes.")
def test_lanes_with_outputs_of_their_own_change_places_again_and_again(
    tmp_path: Path, spark_4_3: Path
) -> None:
    with Runs(tmp_path, spark_4_3, "parquet") as runs:
        told = [
            runs.play(
                Asked(
                    number=number,
                    way=SwitchMethod.PARALLEL,
                    every=25,
                    first=10,
                    deadline_s=PATIENCE,
                    grace_s=PATIENCE,
                )
            )
            for number in (1, 2, 3)
        ]

    for one, live in zip(told, ("orders.green", "orders", "orders.green"), strict=True):
        check(one, live=live)


def check(told: dict[str, Any], *, live: str) -> None:
    assert told["state"] == "retired", told
    assert told["live"] == live
    assert told["kills"], told
    assert told["consumer"]["rows"] > 0
    for seen in (told["consumer"], told["output"]):
        assert (seen["lost"], seen["doubled"], seen["wrong"]) == (0, 0, 0), told
    assert told["holds"], told
