"""A cutover there and a handover back on a real Spark, with a consumer that reads all the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from airflow_streaming.core.cutover.terms import SwitchWay
from tests.system.cutovers.asked import Asked
from tests.system.cutovers.runs import Runs

ONE_BATCH_AND_S: Final = 3.0
LOADED_S: Final = 4.0
"""What a test machine that does other things too may add."""


def test_consumers_see_every_row_once_while_the_stream_goes_to_green_and_is_handed_back(
    tmp_path: Path, spark_4_3: Path
) -> None:
    with Runs(tmp_path, spark_4_3, "ledger") as runs:
        # Killed at some durable steps: a worker always finds what the last one has left.
        there = runs.play(
            Asked(number=1, way=SwitchWay.PARALLEL, sink="ledger", every=30, first=15)
        )
        back = runs.play(
            Asked(number=2, way=SwitchWay.HANDOVER, application="old", every=60, first=30)
        )

    check(there, live="orders.green")
    check(back, live="orders")
    if not back["killed_in_switch"]:
        assert back["without_fresh_s"] <= ONE_BATCH_AND_S + LOADED_S, back


def check(told: dict[str, Any], *, live: str) -> None:
    assert told["state"] == "retired", told
    assert told["live"] == live
    assert told["kills"], told
    assert told["consumer"]["rows"] > 0
    for seen in (told["consumer"], told["output"]):
        assert (seen["lost"], seen["doubled"], seen["wrong"]) == (0, 0, 0), told
    assert told["holds"], told
