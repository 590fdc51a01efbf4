"""Green's first checkpoint is made once, whoever asks, and however often somebody dies at it."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.handover import green_start as starting
from airflow_streaming.changes.handover.green_start import (
    YOUNG,
    StoredCheckpoints,
    make_start,
    own_query_id,
)
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore.clone import clone
from airflow_streaming.exceptions import (
    CheckpointBusy,
    CheckpointRefused,
    RestoreRefused,
    RestoreTaken,
)
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.jobs.migration import MARK, MARKER, StateMigration
from airflow_streaming.model.spark.listing import RESTORE_MARKER
from airflow_streaming.storage.folders import RemoteFolders
from tests.unit.changes.cutover.sights import pair_of
from tests.unit.checkpoints.restoring import Killed, Life, Memory, bytes_of, run_batches

ID = own_query_id("orders.green", 3, "q")
TAKEN = [StartWay.CLONED, StartWay.CARRIED]
MANY = 60


def later() -> datetime:
    return datetime.now(UTC) + YOUNG + timedelta(seconds=1)


def cut_off(tmp_path: Path, last: int) -> Memory:
    """Return a store with what a clone left that died at a step."""
    memory = Memory()
    for path, data in bytes_of(run_batches(tmp_path / "blue", 3)).items():
        memory.pipe_file(f"/b/{path}", data)
    memory.life = Life(last)
    with pytest.raises(Killed):
        ask(memory)
    memory.life = Life()
    return memory


def ask(memory: Memory, **given: Any) -> starting.Started:
    return make_start(
        *(StartWay.CLONED, "memory://b", "memory://g"),
        query_id=ID,
        filesystem=memory,
        **given,
    )


def test_a_copy_that_may_be_under_way_is_left_alone(tmp_path: Path) -> None:
    memory = cut_off(tmp_path, 6)
    before = memory.find("/g")

    with pytest.raises(CheckpointBusy, match="5 min"):
        ask(memory)

    assert memory.find("/g") == before


@pytest.mark.parametrize("reading", [RESTORE_MARKER, "metadata"])
def test_who_is_late_clears_nothing_that_green_was_given(
    reading: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    memory = cut_off(tmp_path, 6)
    original, met = RemoteFolders.read, []

    def late(self: RemoteFolders, path: str, limit: int) -> bytes | None:
        if path == reading and self.uri.endswith("g") and len(met) == 0:
            # After it was seen, and before anything is cleared.
            found = original(self, path, limit)
            met.append(path)
            ask(memory, now=later)
            memory.pipe_file("/g/offsets/4", memory.cat_file("/g/offsets/3"))
            memory.pipe_file("/g/commits/4", b"v1\n{}")
            return found
        return original(self, path, limit)

    monkeypatch.setattr(RemoteFolders, "read", late)
    with contextlib.suppress(CheckpointBusy):
        ask(memory, now=later)

    names = {path.removeprefix("/g/") for path in memory.find("/g")}
    assert met
    assert {"commits/4", "metadata", "offsets/3", "commits/3"} <= names


def test_a_whole_copy_is_kept_whoever_died_before_he_said_so(tmp_path: Path) -> None:
    memory = cut_off(tmp_path, 6)
    left = bytes(memory.cat_file(f"/g/{RESTORE_MARKER}"))
    ask(memory, now=later)
    memory.pipe_file(f"/g/{RESTORE_MARKER}", left)
    before = set(memory.find("/g")) - {f"/g/{RESTORE_MARKER}"}
    steps = memory.life.steps

    assert ask(memory, now=later).batch == 3

    assert set(memory.find("/g")) == before
    assert memory.life.steps == steps + 1


def test_an_id_is_of_one_query_of_one_deployment() -> None:
    others = [("orders", 3, "q"), ("orders.green", 4, "q"), ("orders.green", 3, "r")]

    assert own_query_id("orders.green", 3, "q") == ID
    assert len({ID, *(own_query_id(*other) for other in others)}) == 4


@pytest.mark.parametrize("start", TAKEN)
def test_asking_again_leaves_what_was_made(start: StartWay, tmp_path: Path) -> None:
    blue = run_batches(tmp_path / "blue", 4)
    green = tmp_path / "green"
    asked: dict[str, Any] = {"query_id": ID, "stateless": True}

    made = make_start(start, str(blue), str(green), **asked)
    before = bytes_of(green)
    run_batches(blue, 6)

    assert make_start(start, str(blue), str(green), **asked) == made
    assert (made.batch, made.query_id) == (4, ID)
    assert bytes_of(green) == before
    assert inspect(str(green)).query_id == ID


@pytest.mark.parametrize("start", TAKEN)
def test_whoever_dies_is_followed_by_anybody(start: StartWay, tmp_path: Path) -> None:
    blue = run_batches(tmp_path / "blue", 3)
    asked: dict[str, Any] = {"query_id": ID, "stateless": True}
    for last in range(1, MANY):
        memory = Memory()
        for path, data in bytes_of(blue).items():
            memory.pipe_file(f"/b/{path}", data)
        memory.life = Life(last)
        try:
            make_start(start, "memory://b", "memory://g", filesystem=memory, **asked)
            break
        except (Killed, RestoreTaken):
            # One that dies before its claim is there finds it taken, and dies of that.
            memory.life = Life()
        made = make_start(start, "memory://b", "memory://g", filesystem=memory, now=later, **asked)
        assert made.batch == 3
        names = {path.removeprefix("/g/") for path in memory.find("/g")}
        assert "_airflow_streaming_restore.json" not in names
        assert {"metadata", "offsets/3", "commits/3"} <= names
    assert last > 5


def test_a_fresh_start_is_an_empty_place(tmp_path: Path) -> None:
    blue = run_batches(tmp_path / "blue", 1)

    made = make_start(StartWay.FRESH, str(blue), str(tmp_path / "green"), query_id=ID)

    assert (made.query_id, made.batch) == ("", None)
    assert not (tmp_path / "green").exists()


@pytest.mark.parametrize("start", StartWay)
def test_a_place_that_has_something_else_is_refused(start: StartWay, tmp_path: Path) -> None:
    blue = run_batches(tmp_path / "blue", 1)
    other = run_batches(tmp_path / "green", 2, query_id="0-0-0-0-2")
    before = bytes_of(other)

    with pytest.raises((CheckpointRefused, RestoreRefused)):
        make_start(start, str(blue), str(other), query_id=ID, stateless=True)
    assert bytes_of(other) == before


def migrating(blue: str, green: str, query_id: str, *, dies: bool = False) -> int:
    """Play the migration of a state: the copy has a mark until its proof is clean."""
    folder = Path(green)
    shutil.rmtree(folder, ignore_errors=True)
    made = clone(blue, green, query_id=query_id, beside={MARKER: MARK})
    if dies:
        raise Killed
    (folder / MARKER).unlink()
    return made.batch


def test_green_starts_from_a_migrated_copy_once_it_is_proved(tmp_path: Path) -> None:
    blue, green = run_batches(tmp_path / "blue", 3), tmp_path / "green"
    asked: Any = {"start": StartWay.MIGRATED, "query_id": ID}
    with pytest.raises(Killed):
        make_start(
            blue_uri=str(blue),
            green_uri=str(green),
            migrate=partial(migrating, dies=True),
            **asked,
        )
    assert (green / "metadata").exists(), "a whole copy, whose state is not migrated"

    runs: list[str] = []

    def counted(blue: str, green: str, query_id: str) -> int:
        runs.append(green)
        return migrating(blue, green, query_id)

    both = {"blue_uri": str(blue), "green_uri": str(green), "migrate": counted}
    made = make_start(**both, **asked)
    assert made == starting.Started(uri=str(green), query_id=ID, batch=3)
    assert make_start(**both, **asked) == made
    assert len(runs) == 1, "a proved copy is not made again"


def test_a_query_whose_state_stays_is_copied_as_it_is(tmp_path: Path) -> None:
    blue, green = run_batches(tmp_path / "blue", 3), tmp_path / "green"
    made = make_start(StartWay.MIGRATED, str(blue), str(green), query_id=ID)

    assert made.batch == 3
    assert inspect(str(green)).query_id == ID


def test_only_a_task_of_the_dag_migrates_the_state_of_green() -> None:
    queries = {"migrations": (StateMigration(query="counts"),), "queries": ("counts",)}
    pair = replace(pair_of(SwitchMethod.PARALLEL), **queries)
    with pytest.raises(CheckpointBusy, match="Only a task"):
        StoredCheckpoints().start(pair, pair.shadow)
