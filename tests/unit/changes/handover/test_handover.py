"""A handover plans green's next batch, on disk and on an object store, whoever dies on the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.handover.fast_forward import FastForward
from airflow_streaming.changes.handover.handover import (
    HandoverPlan,
    absorb_plan,
    batch_shift,
    carry,
    write_plan,
)
from airflow_streaming.checkpoints.read.file_logs import parse_source_log
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.exceptions import CheckpointBusy, CheckpointRefused
from airflow_streaming.model.storage import LocalStore
from tests.unit.checkpoints.restoring import PLAN, Killed, Life, Memory, bytes_of, run_batches

ID = "0e6d8f1c-1111-4222-8333-444455556666"
MANY = 40


def run_files(
    folder: Path, entries: list[list[str]], *, planned: bool = False, watermark: int = 0
) -> Path:
    """Write the checkpoint of a query of one file source: a batch for each entry of its log."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "metadata").write_text(json.dumps({"id": folder.name}))
    head = json.dumps({**PLAN, "batchWatermarkMs": watermark})
    for number, names in enumerate(entries):
        lines = [
            json.dumps({"path": f"file:///in/{one}", "timestamp": 5, "batchId": number})
            for one in names
        ]
        (folder / "sources/0" / str(number)).write_text("\n".join(["v1", *lines]))
        (folder / "offsets" / str(number)).write_text(f'v1\n{head}\n{{"logOffset":{number}}}')
        if not (planned and number == len(entries) - 1):
            (folder / "commits" / str(number)).write_text(
                json.dumps({"nextBatchWatermarkMs": watermark}).join(("v1\n", ""))
            )
    return folder


def run(folder: Path, batch: int) -> None:
    """Commit a planned batch, as a driver does."""
    (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def files_of(folder: Path, entry: str) -> list[str]:
    found = parse_source_log((folder / "sources/0" / entry).read_bytes())
    return [one.path.rpartition("/")[2] for one in found]


def to_memory(folder: Path, name: str, memory: Memory) -> str:
    for path, data in bytes_of(folder).items():
        memory.pipe_file(f"/{name}/{path}", data)
    return f"memory://{name}"


def test_green_comes_to_blue_and_takes_its_planned_batch_over(tmp_path: Path) -> None:
    blue = run_files(tmp_path / "blue", [["a"], ["b"], ["c"], ["d"]], planned=True, watermark=9)
    green = run_files(tmp_path / "green", [["a", "b"]])
    before = bytes_of(blue)

    first = absorb_plan(str(blue), str(green))
    assert first.absorb is not None
    write_plan(str(green), first.absorb)
    assert files_of(green, "1") == ["c"]
    again = absorb_plan(str(blue), str(green))
    assert again.absorb is not None
    assert not again.absorb.written

    run(green, 1)
    level = absorb_plan(str(blue), str(green))
    assert (level.absorb, level.waiting) == (None, "")
    assert level.planned is not None
    assert level.planned_in_blue == 3
    write_plan(str(green), level.planned)
    assert files_of(green, "2") == ["d"]
    done = absorb_plan(str(blue), str(green))
    assert (done.absorb, done.waiting) == (None, "")
    assert done.planned is not None
    assert not done.planned.written
    assert bytes_of(blue) == before


def test_a_plan_is_written_again_to_the_same_effect_and_never_over_another(tmp_path: Path) -> None:
    blue = run_files(tmp_path / "blue", [["a"], ["b"], ["c"]])
    green = run_files(tmp_path / "green", [["a"]])
    plan = absorb_plan(str(blue), str(green)).absorb
    assert plan is not None

    write_plan(str(green), plan)
    before = bytes_of(green)
    write_plan(str(green), plan)
    assert bytes_of(green) == before

    (green / "offsets/1").write_text(f'v1\n{json.dumps(PLAN)}\n{{"logOffset":7}}')
    with pytest.raises(CheckpointRefused, match="differently"):
        write_plan(str(green), plan)


def test_an_entry_that_is_written_anew_loses_hadoops_checksum(tmp_path: Path) -> None:
    blue = run_files(tmp_path / "blue", [["a"], ["b"], ["c"]])
    green = run_files(tmp_path / "green", [["a"]])
    (green / "sources/0/1").write_text('v1\n{"path":"file:///in/x","timestamp":5,"batchId":1}')
    (green / "sources/0/.1.crc").write_bytes(b"of x")
    plan = absorb_plan(str(blue), str(green)).absorb
    assert plan is not None

    write_plan(str(green), plan)

    assert files_of(green, "1") == ["b", "c"]
    assert not (green / "sources/0/.1.crc").exists()


def _outrun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, at: str) -> tuple[Path, FastForward]:
    """Have somebody else plan and run a later batch in the midst of one's own planning."""
    blue = run_files(tmp_path / "blue", [["a"], ["b"], ["c"]], watermark=9)
    green = run_files(tmp_path / "green", [["a"]])
    mine = absorb_plan(str(blue), str(green)).absorb
    assert mine is not None
    original, met = getattr(LocalStore, at), []

    def late(self: LocalStore, *given: Any) -> None:
        if not met:
            met.append(at)
            run_files(tmp_path / "blue", [["a"], ["b"], ["c"], ["d"], ["e"]], watermark=9)
            other = absorb_plan(str(blue), str(green)).absorb
            assert other is not None
            write_plan(str(green), other)
            run(green, 1)
        original(self, *given)

    monkeypatch.setattr(LocalStore, at, late)
    return green, mine


@pytest.mark.parametrize("at", ["delete", "create"])
def test_who_comes_late_writes_nothing_under_a_plan_that_was_made(
    at: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    green, mine = _outrun(monkeypatch, tmp_path, at)

    with pytest.raises(CheckpointBusy, match="sources/0/1"):
        write_plan(str(green), mine)

    assert files_of(green, "1") == ["b", "c", "d", "e"]
    assert absorb_plan(str(tmp_path / "blue"), str(green)).absorb is None


def test_an_entry_is_not_cleared_once_a_plan_names_it(tmp_path: Path) -> None:
    blue = run_files(tmp_path / "blue", [["a"], ["b"], ["c"]])
    green = run_files(tmp_path / "green", [["a"]])
    (green / "sources/0/1").write_text('v1\n{"path":"file:///in/x","timestamp":5,"batchId":1}')
    late = absorb_plan(str(blue), str(green)).absorb
    assert late is not None
    assert late.removed == ("sources/0/1",)
    run_files(tmp_path / "blue", [["a"], ["b"], ["c"], ["d"]])
    other = absorb_plan(str(blue), str(green)).absorb
    assert other is not None
    write_plan(str(green), other)

    with pytest.raises(CheckpointBusy, match="sources/0/1"):
        write_plan(str(green), late)

    assert files_of(green, "1") == ["b", "c", "d"]


def test_compacted_logs_are_read_on_both_sides(tmp_path: Path) -> None:
    blue = run_files(tmp_path / "blue", [[one] for one in "abcdef"])
    merged = [json.dumps({"path": f"file:///in/{n}", "timestamp": 5, "batchId": k})
              for k, n in enumerate("abc")]  # fmt: skip
    (blue / "sources/0/2").unlink()
    (blue / "sources/0/2.compact").write_text("\n".join(["v1", *merged]))
    for gone in ("0", "1"):
        (blue / "sources/0" / gone).unlink()
    green = run_files(tmp_path / "green", [["a"], ["b"]])

    plan = absorb_plan(str(blue), str(green), compact_interval=3).absorb

    assert plan is not None
    write_plan(str(green), plan)
    assert files_of(green, "2.compact") == ["a", "b", "c", "d", "e", "f"]


def test_a_log_with_a_hole_is_refused(tmp_path: Path) -> None:
    blue = run_files(tmp_path / "blue", [["a"], ["b"], ["c"]])
    (blue / "sources/0/1").unlink()

    with pytest.raises(CheckpointRefused, match="sources/0/1"):
        absorb_plan(str(blue), str(run_files(tmp_path / "green", [["a"]])))


def _absorbed(blue: str, green: str, memory: Memory) -> HandoverPlan:
    found = absorb_plan(blue, green, filesystem=memory)
    if found.absorb is not None:
        write_plan(green, found.absorb, filesystem=memory)
    return found


def test_whoever_dies_while_planning_is_followed_by_anybody(tmp_path: Path) -> None:
    source = run_files(tmp_path / "blue", [["a"], ["b"], ["c"]], watermark=7)
    target = run_files(tmp_path / "green", [["a"]])

    def attempt(last: int | None) -> tuple[dict[str, bytes], bool]:
        memory = Memory()
        blue, green = to_memory(source, "b", memory), to_memory(target, "g", memory)
        memory.life = life = Life(last)
        was_killed = False
        try:
            _absorbed(blue, green, memory)
        except Killed:
            was_killed = True
        memory.life = Life()
        _absorbed(blue, green, memory)
        assert life.steps > 0
        return {p: bytes(memory.cat_file(p)) for p in memory.find("/g")}, was_killed

    whole, _ = attempt(None)
    deaths = 0
    for last in range(1, MANY):
        left, was_killed = attempt(last)
        assert left == whole
        deaths += was_killed
        if not was_killed:
            break
    assert deaths >= 2


def test_a_position_is_carried_with_numbers_and_planned_batch(tmp_path: Path) -> None:
    blue = run_batches(tmp_path / "blue", 4)
    (blue / "commits/4").unlink()

    for _ in range(2):
        assert carry(str(blue), str(tmp_path / "green"), query_id=ID) == 3

    made = inspect(str(tmp_path / "green"))
    assert (made.last_committed_batch, made.last_planned_batch, made.query_id) == (3, 4, ID)
    for name in ("offsets/3", "offsets/4", "commits/3"):
        assert (tmp_path / "green" / name).read_bytes() == (blue / name).read_bytes()


def test_a_carry_over_that_was_cut_off_is_made_whole(tmp_path: Path) -> None:
    blue = run_batches(tmp_path / "blue", 4)
    for last in range(1, MANY):
        memory: Any = Memory()
        source = to_memory(blue, "b", memory)
        memory.life = Life(last)
        try:
            carry(source, "memory://g", query_id=ID, filesystem=memory)
            break
        except Killed:
            memory.life = Life()
        assert carry(source, "memory://g", query_id=ID, filesystem=memory) == 4
    assert last > 4


def test_whoever_dies_again_and_again_while_carrying_still_comes_to_an_end(tmp_path: Path) -> None:
    memory: Any = Memory()
    source = to_memory(run_batches(tmp_path / "blue", 4), "b", memory)
    deaths = 0
    for _ in range(MANY):
        # Too short a life for all of it, and each goes on where the last one was.
        memory.life = Life(2)
        try:
            carry(source, "memory://g", query_id=ID, filesystem=memory)
            break
        except Killed:
            memory.life, deaths = Life(), deaths + 1

    assert 1 < deaths < MANY
    assert carry(source, "memory://g", query_id=ID, filesystem=memory) == 4


def test_a_place_that_has_something_else_is_left_alone(tmp_path: Path) -> None:
    blue = run_batches(tmp_path / "blue", 4)
    run_batches(tmp_path / "green", 9, query_id="0-0-0-0-2")

    with pytest.raises(CheckpointRefused, match="contains the unknown file"):
        carry(str(blue), str(tmp_path / "green"), query_id=ID)


def test_a_position_that_was_carried_too_early_is_refused(tmp_path: Path) -> None:
    blue = run_batches(tmp_path / "blue", 4)
    carry(str(blue), str(tmp_path / "green"), query_id=ID)
    run_batches(blue, 6)

    with pytest.raises(CheckpointRefused, match="batch 6"):
        carry(str(blue), str(tmp_path / "green"), query_id=ID)


@pytest.mark.parametrize(
    ("blue", "green", "before", "shift"),
    [(10, 3, 0, 7), (3, 10, 0, -7), (10, 3, 5, 12), (10, -1, 0, 11)],
)
def test_ids_go_on_where_blues_ended(blue: int, green: int, before: int, shift: int) -> None:
    found = batch_shift(blue_batch=blue, green_batch=green, blue_shift=before)

    assert found == shift
    assert green + 1 + found == blue + 1 + before
