"""The pointer file: whole for every reader, moved once, undone, and never somebody else's."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from airflow_streaming.changes.pointers.file import PointerFile
from airflow_streaming.changes.pointers.port import CallablePointer
from airflow_streaming.exceptions import PointerFailed, PointerRefused, SpecError
from airflow_streaming.model.products.live_output import LiveOutput
from tests.unit.racing import at_once, read_during

BLUE = LiveOutput(stream="orders", lane="orders", deployment=2, output="/lake/blue")
GREEN = LiveOutput(
    stream="orders", lane="orders.green", deployment=1, output="/lake/green", number=1
)
AGAIN = LiveOutput(stream="orders", lane="orders", deployment=3, output="/lake/blue3", number=2)


@pytest.fixture
def pointer(tmp_path: Path) -> PointerFile:
    return PointerFile(uri=str(tmp_path / "feeds" / "orders.json"))


def output_in(pointer: PointerFile) -> str:
    return str(json.loads(Path(pointer.uri).read_bytes())["output"])


def test_it_leads_there_and_back_however_often_it_is_told(pointer: PointerFile) -> None:
    for _ in range(2):
        pointer.move(GREEN, BLUE)
        assert output_in(pointer) == "/lake/green"
    for _ in range(2):
        pointer.undo(GREEN, BLUE)
        assert output_in(pointer) == "/lake/blue"
    pointer.move(AGAIN, BLUE)
    assert output_in(pointer) == "/lake/blue3"


def test_it_can_be_laid_before_the_first_cutover(pointer: PointerFile) -> None:
    pointer.move(BLUE, BLUE)
    assert output_in(pointer) == "/lake/blue"
    pointer.move(GREEN, BLUE)
    assert output_in(pointer) == "/lake/green"


def test_a_task_that_slept_through_the_undoing_changes_nothing(pointer: PointerFile) -> None:
    pointer.undo(GREEN, BLUE)
    with pytest.raises(PointerRefused, match="it already has the undo of record 1"):
        pointer.move(GREEN, BLUE)
    assert output_in(pointer) == "/lake/blue"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"feed = /lake/other\n", id="a text"),
        pytest.param(b'{"output": "/lake/other"}', id="somebody's JSON"),
        pytest.param(b"", id="an empty file"),
    ],
)
def test_a_file_of_somebody_else_is_left_as_it_is(pointer: PointerFile, content: bytes) -> None:
    Path(pointer.uri).parent.mkdir()
    Path(pointer.uri).write_bytes(content)
    for word in (pointer.move, pointer.undo):
        with pytest.raises(PointerRefused, match="was not written by airflow-streaming"):
            word(GREEN, BLUE)
    assert Path(pointer.uri).read_bytes() == content


def test_a_folder_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "feeds").write_text("a file where the folder should be")
    with pytest.raises(PointerFailed, match="could not be moved"):
        PointerFile(uri=str(tmp_path / "feeds" / "orders.json")).move(GREEN, BLUE)


@pytest.mark.parametrize("uri", ["live.json", "s3://lake/orders/", "/lake/.live.json"])
def test_what_cannot_be_a_pointer_file_is_refused_in_the_dag(uri: str) -> None:
    with pytest.raises(SpecError, match="pointer file cannot be"):
        PointerFile(uri=uri)


def test_only_hdfs_is_not_atomic() -> None:
    uris = ("/a/b.json", "s3://a/b.json", "hdfs:///a/b.json")
    assert [PointerFile(uri=uri).is_atomic for uri in uris] == [True, True, False]


def test_on_an_object_store_it_is_one_upload() -> None:
    pointer = PointerFile(uri="memory://feeds/orders.json")
    pointer.move(GREEN, BLUE)
    shown = pointer.read()
    assert shown is not None
    assert (shown.lane, shown.undone) == ("orders.green", False)
    pointer.undo(GREEN, BLUE)
    shown = pointer.read()
    assert shown is not None
    assert (shown.lane, shown.undone) == ("orders", True)


def test_readers_who_race_with_it_never_see_half(pointer: PointerFile) -> None:
    pointer.move(BLUE, BLUE)
    seen, halves = set(), []

    def read() -> None:
        data = Path(pointer.uri).read_bytes()
        try:
            told = json.loads(data)
            seen.add((told["lane"], told["output"]))
        except (ValueError, KeyError):
            halves.append(data)

    def move(number: int) -> None:
        pointer.move(replace((BLUE, GREEN)[number % 2], number=number), BLUE)

    read_during(move, read, times=200, enough=lambda: bool(halves) or len(seen) == 2)
    assert halves == []
    assert seen == {("orders", "/lake/blue"), ("orders.green", "/lake/green")}


def test_of_one_who_moves_and_one_who_undoes_at_once_the_undoing_stands(tmp_path: Path) -> None:
    for turn in range(20):
        pointer = PointerFile(uri=str(tmp_path / f"{turn}.json"))

        def move(pointer: PointerFile = pointer) -> None:
            with contextlib.suppress(PointerRefused):
                pointer.move(GREEN, BLUE)

        at_once(move, partial(pointer.undo, GREEN, BLUE))
        assert output_in(pointer) == "/lake/blue"


def test_functions_are_told_both_lanes_and_say_themselves_whether_they_are_atomic() -> None:
    told: list[tuple[str, str, str]] = []
    pointer = CallablePointer(
        name="router",
        forward=lambda to, before: told.append(("to", to.lane, before.lane)),
        backward=lambda to, before: told.append(("back", to.lane, before.lane)),
    )
    pointer.move(GREEN, BLUE)
    pointer.undo(GREEN, BLUE)
    assert told == [("to", "orders.green", "orders"), ("back", "orders.green", "orders")]
    assert not pointer.is_atomic


def test_a_function_that_raises_is_called_again_and_one_that_refuses_is_not() -> None:
    def fail(to: LiveOutput, before: LiveOutput) -> None:
        raise ConnectionError("no route to the router")

    def refuse(to: LiveOutput, before: LiveOutput) -> None:
        raise PointerRefused("The router is frozen.")

    pointer = CallablePointer(name="router", forward=fail, backward=refuse)
    with pytest.raises(PointerFailed, match="raised ConnectionError: no route to the router"):
        pointer.move(GREEN, BLUE)
    with pytest.raises(PointerRefused, match="frozen"):
        pointer.undo(GREEN, BLUE)


def test_a_function_whose_work_was_not_done_has_moved_nothing() -> None:
    async def lead(to: LiveOutput, before: LiveOutput) -> None: ...

    pointer = CallablePointer(
        name="router",
        forward=lambda to, before: lead(to, before),
        backward=lambda to, before: (one for one in (to, before)),
    )
    with pytest.raises(PointerFailed, match="NeverRan"):
        pointer.move(GREEN, BLUE)
    with pytest.raises(PointerFailed, match="NeverRan"):
        pointer.undo(GREEN, BLUE)
