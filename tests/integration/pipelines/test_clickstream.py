from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from airflow_streaming.testing import StreamTester, compare_rows, undo_last_commit
from demo.feeds.feed import parsed
from demo.feeds.shapes import FEEDS
from tests.integration.pipelines.conftest import Feeding

FILES = 7
SCRIPT = Path("clickstream", "jobs", "clickstream.py")


def events(files: int = FILES) -> dict[str, tuple[datetime, dict[str, str]]]:
    rows = [row for n in range(files) for row in parsed(FEEDS["clicks"].lines(n))]
    return {row["id"]: (datetime.fromisoformat(row["ts"].rstrip("Z")), row) for row in rows}


def pairs(files: int = FILES) -> list[dict[str, str]]:
    """Return every view with every click within five minutes, by the same user and product."""
    found = [*events(files).values()]
    return [
        {"view_id": view["id"], "click_id": click["id"], "product": view["product"]}
        for seen, view in found
        for clicked, click in found
        if (view["kind"], click["kind"]) == ("view", "click")
        and (view["user"], view["product"]) == (click["user"], click["product"])
        and abs(seen - clicked) <= timedelta(minutes=5)
    ]


def test_sessions_and_clicks_are_those_of_a_batch_and_names_are_those_of_the_moment(
    stream_tester: StreamTester, feed: Feeding, dags: Path, tmp_path: Path
) -> None:
    script, checkpoint = dags / SCRIPT, tmp_path / "checkpoint"
    folders = {name: tmp_path / name for name in ("in", "products", "out")}
    places = [part for name in ("in", "products", "out") for part in (f"--{name}", folders[name])]
    places[0], places[4] = "--input", "--output"
    folders["products"].mkdir()
    table = folders["products"] / "names.csv"
    table.write_text("".join(f"p{n},old {n}\n" for n in range(1, 5)))
    feed("clicks", folders["in"], range(FILES // 2))
    stream_tester.run(script, *places, checkpoint=checkpoint)
    table.write_text("".join(f"p{n},new {n}\n" for n in range(1, 5)))
    feed("clicks", folders["in"], range(FILES // 2, FILES))
    undo_last_commit(checkpoint, "attributed")
    stream_tester.run(script, *places, checkpoint=checkpoint)

    found = stream_tester.rows(folders["out"] / "attributed")
    assert not compare_rows(found, pairs(), ("view_id", "click_id", "product"))
    assert {row["name"][:3] for row in found} == {"old", "new"}
    closed = max(at for at, _ in events().values()) - timedelta(hours=1)
    batch = stream_tester.run_batch(script, *places)["sessions"]
    expected = [row for row in batch if datetime.fromisoformat(row["end"]) <= closed]
    assert len(expected) > 5
    assert not compare_rows(stream_tester.rows(folders["out"] / "sessions"), expected)


@pytest.mark.parametrize(("policy", "loses"), [("min", False), ("max", True)])
@pytest.mark.nightly("Three more queries.")
def test_the_slower_source_loses_rows_when_the_faster_one_sets_the_watermark(
    policy: str,
    loses: bool,
    stream_tester: StreamTester,
    feed: Feeding,
    dags: Path,
    tmp_path: Path,
) -> None:
    feed("clicks", tmp_path / "slow", range(3))
    feed("clicks", tmp_path / "fast", range(15, 18))
    run = stream_tester.run(
        dags / SCRIPT,
        *("--input", tmp_path / "fast", "--slow", tmp_path / "slow", "--policy", policy),
        *("--products", tmp_path, "--output", tmp_path / "out"),
        checkpoint=tmp_path / "checkpoint",
    )

    assert (run["hourly"].late_rows > 0) is loses
