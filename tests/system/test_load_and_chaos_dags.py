"""The dags that kill and load a marked stream, each run once on a real Airflow and a real Spark."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from demo.run import make_stage
from demo.stage import APPLICATION, REPOSITORY, Stage
from demo.story import launch
from demo.waiting import Progress, wait_for

NAME = "load_and_chaos"
KILLS, KILLING_MINUTES = 3, 3
TIMES, LOADING_MINUTES = 10, 2

pytestmark = pytest.mark.nightly("A whole Airflow for some ten minutes.")


def report_of(stage: Stage, asset: str) -> dict[str, Any]:
    """Return what the newest event of an asset carries."""
    (found,) = stage.airflow.get(f"/api/v2/assets?name_pattern={asset}")["assets"]
    events = stage.airflow.get(f"/api/v2/assets/events?asset_id={found['id']}")["asset_events"]
    newest: dict[str, Any] = max(events, key=lambda event: event["timestamp"])["extra"]
    return newest


def test_a_marked_stream_comes_through_its_kills_and_ten_times_its_load_is_reported(
    tmp_path: Path, spark_4_3: Path
) -> None:
    say = Progress()
    stage, dag = make_stage(tmp_path / "demo", spark_4_3, NAME, say)
    with stage:
        launch(stage, say, dag)
        program = f"{stage.runtime}/bin/python {REPOSITORY}/demo/compare.py"
        places = f"--input {stage.orders} --output {stage.stream.output}"
        compare = f"{program} --application {APPLICATION} {places}"
        run = stage.airflow.trigger("chaos", kills=KILLS, minutes=KILLING_MINUTES, compare=compare)

        killing = time.monotonic() + 60 * KILLING_MINUTES

        def are_over() -> bool:
            return time.monotonic() > killing and stage.stream.is_well()

        # What is compared must come to an end, but after the last kill: Spark closes a window that is
        # due in a batch after one with data.
        wait_for(are_over, what="the end of the kills", say=say, failing=stage.stream.failure)
        stage.arrivals.stop()
        assert stage.airflow.await_run("chaos", run, say) == "success"
        chaos = report_of(stage, "chaos_report")
        say(f"chaos: {chaos}")
        run = stage.airflow.trigger("load_10x", times=TIMES, minutes=LOADING_MINUTES)
        assert stage.airflow.await_run("load_10x", run, say) == "success"
        load = report_of(stage, "load_10x_report")
        say(f"load_10x: {load}")

    say(f"At most {stage.drivers.most} drivers in {stage.drivers.looks} looks")
    assert 1 <= len(chaos["killed"]) <= KILLS
    assert chaos["well_again"] is True
    assert chaos["output"] == "equal"
    compared = json.loads(chaos["compared"])
    assert compared["found"] == compared["expected"] > 0
    assert (compared["lost"], compared["doubled"], compared["wrong"]) == (0, 0, 0)
    assert stage.drivers.most == 1
    assert load["files"] > TIMES * LOADING_MINUTES
    assert {"fired_before", "fired_first", "verdict", "advice"} <= set(load)
    assert stage.leftovers() == []
