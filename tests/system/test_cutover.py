"""A cutover each way on a real Spark, with a consumer that reads all the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.core.cutover.terms import SwitchWay
from tests.system.cutovers.asked import Asked
from tests.system.cutovers.runs import Runs

ONE_BATCH_AND_3_S = 3.0
LOADED_S = 4.0
"""What a test machine that does other things too may add."""


@pytest.mark.parametrize("way", [*SwitchWay], ids=lambda way: way.value)
def test_consumers_see_every_row_once_while_the_stream_goes_over_to_another_aggregation(
    way: SwitchWay, tmp_path: Path, spark_4_3: Path
) -> None:
    with Runs(tmp_path, spark_4_3, way) as runs:
        # Killed at every fortieth durable step: a worker always finds what the last one has left.
        told = runs.play(Asked(number=1, way=way, every=40, first=20))

    assert told["state"] == "retired", told
    assert told["live"] == "orders.green"
    assert told["kills"], told
    assert told["consumer"]["rows"] > 0
    for seen in (told["consumer"], told["output"]):
        assert (seen["lost"], seen["doubled"], seen["wrong"]) == (0, 0, 0), told
    assert told["holds"], told
    if not told["killed_in_switch"]:
        assert told["without_fresh_s"] <= ONE_BATCH_AND_3_S + LOADED_S, told
