"""What consumers follow, from the dag's tasks: led to blue first, and found out when it cannot be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.changes.pointers.file import PointerFile
from airflow_streaming.operators.common.cutover_checks import lay
from tests.unit.changes.cutover.cutting import Cutting
from tests.unit.operators.cutovers import Run


@pytest.fixture
def stream(tmp_path: Path) -> Cutting:
    return Cutting(tmp_path)


@pytest.fixture
def pointer(tmp_path: Path) -> PointerFile:
    return PointerFile(uri=str(tmp_path / "pointers" / "orders.json"))


@pytest.fixture
def run(stream: Cutting, pointer: PointerFile, monkeypatch: pytest.MonkeyPatch) -> Run:
    begun = Run(stream, monkeypatch, pointers=[pointer])
    begun.report()
    return begun


def test_a_pointer_that_never_led_anywhere_leads_to_blue_while_green_is_beside_it(
    run: Run, stream: Cutting, pointer: PointerFile
) -> None:
    run.go("start_green")

    shown, blue = pointer.read(), stream.home("orders").newest_deployment()
    assert shown is not None
    assert blue is not None
    assert (shown.lane, shown.output, shown.number) == ("orders", blue.output, 0)


def test_nothing_is_begun_where_a_pointer_is_somebody_elses(
    run: Run, stream: Cutting, pointer: PointerFile
) -> None:
    file = Path(pointer.uri)
    file.parent.mkdir()
    file.write_text("not ours")

    with pytest.raises(AirflowFailException, match="is not overwritten"):
        run.go("start_green")

    assert file.read_text() == "not ours"
    assert stream.home("orders").changes() == []


def test_a_pointer_that_was_taken_away_is_led_to_what_is_live_again(
    run: Run, stream: Cutting, pointer: PointerFile
) -> None:
    assert set(run.go_all().values()) == {"done"}
    Path(pointer.uri).unlink()

    lay({pointer.name: pointer}, stream.home("orders"))

    shown = pointer.read()
    assert shown is not None
    assert (shown.lane, shown.number) == ("orders.green", 1)


def test_a_pointer_that_tells_of_a_switch_that_was_given_up_is_left_as_it_is(
    run: Run, stream: Cutting, pointer: PointerFile
) -> None:
    assert set(run.go_all().values()) == {"done"}
    home = stream.home("orders")
    home.point(replace(home.live_records()[-1], step=100))

    assert lay({pointer.name: pointer}, home) == []


def test_a_pointer_of_another_stream_of_the_cutover_leads_to_the_lane_of_that_stream(
    tmp_path: Path, pointer: PointerFile
) -> None:
    streams = Cutting(tmp_path, streams=("orders", "payments"))

    assert lay({f"payments/{pointer.name}": pointer}, streams.home("orders")) == [
        f"payments/{pointer.name}"
    ]

    shown, paid = pointer.read(), streams.home("payments").newest_deployment()
    assert shown is not None
    assert paid is not None
    assert (shown.lane, shown.output) == ("payments", paid.output)
