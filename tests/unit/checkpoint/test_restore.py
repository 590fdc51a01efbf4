"""A backup is restored whole into a place of its own, or not at all, whenever its process dies."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoint.folders import open_folders
from airflow_streaming.checkpoint.progress import Phase, ProgressNow
from airflow_streaming.checkpoint.reader import Reader, inspect
from airflow_streaming.checkpoint.restore import Place, plan_restore, restore
from airflow_streaming.checkpoint.store import BackupStore
from airflow_streaming.core.checkpoint.listing import RESTORE_MARKER
from airflow_streaming.core.checkpoint.refusal import Circumstances
from airflow_streaming.core.checkpoint.replay import RefusalCode
from airflow_streaming.exceptions import (
    BackupDamaged,
    BackupNotFound,
    HomeUnavailable,
    RestoreRefused,
    RestoreTaken,
)
from tests.conftest import REPOSITORY
from tests.golden import golden_checkpoint
from tests.unit.checkpoint.made import make_backup
from tests.unit.checkpoint.restoring import (
    Killed,
    Life,
    Memory,
    back_up,
    is_sound_at,
    limit_local,
    new_store,
    run_batches,
)

SAMPLES = REPOSITORY / "tests/unit/core/checkpoint/state_variables"


@pytest.fixture(autouse=True)
def _no_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    # It waits for whatever else this machine is writing.
    monkeypatch.setattr(os, "sync", lambda: None)


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return new_store(tmp_path)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def codes(refusals: Any) -> list[RefusalCode]:
    return [refusal.code for refusal in refusals]


def test_what_is_restored_is_what_was_backed_up(store: BackupStore, tmp_path: Path) -> None:
    golden = golden_checkpoint("4.3.0", "agg_rocks_v2")
    backup = back_up(store, golden.path)

    restored = restore(store, backup.id, Place(to=str(tmp_path / "new")))

    new = bytes_of(tmp_path / "new")
    assert restored.checkpoints == {"": str(tmp_path / "new")}
    assert (len(new), restored.files) == (backup.files, backup.files)
    assert all((golden.path / path).read_bytes() == data for path, data in new.items())
    assert not any(Path(path).name.startswith(".") for path in new)
    assert is_sound_at(tmp_path / "new", 6)


def test_every_query_of_a_stream_gets_its_folder(store: BackupStore, tmp_path: Path) -> None:
    for name in ("counts", "sums"):
        run_batches(tmp_path / "ck" / name, 3, query_id=name)
    backup = back_up(store, tmp_path / "ck")

    restored = restore(
        store, backup.id, Place(to=str(tmp_path / "new"), folders={"counts": "c", "sums": "sums"})
    )

    assert restored.checkpoints == {
        "counts": f"{tmp_path}/new/c",
        "sums": f"{tmp_path}/new/sums",
    }
    assert inspect(f"{tmp_path}/new/c").query_id == "counts"
    assert is_sound_at(tmp_path / "new/sums", 3)


def test_a_dry_run_says_what_comes_again_and_writes_nothing(
    store: BackupStore, tmp_path: Path
) -> None:
    live = run_batches(tmp_path / "ck", 3)
    backup = back_up(store, live)
    run_batches(live, 9)

    plan = plan_restore(store, backup.id, Place(to=str(tmp_path / "new")))

    (query,) = plan.queries
    assert (query.batch, query.current, query.again) == (3, 9, (4, 9))
    assert query.sources[0].amount == 60
    assert "Source 0 (kafka) reads again 60 records." in plan.sentences()
    assert not plan.is_refused
    assert not (tmp_path / "new").exists()


def test_a_checkpoint_that_is_gone_leaves_the_way_back_unknown(
    store: BackupStore, tmp_path: Path
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))
    shutil.rmtree(tmp_path / "ck")

    plan = plan_restore(store, backup.id, Place(to=str(tmp_path / "new")))

    assert plan.queries[0].current is None
    assert any("The checkpoint in use cannot be read" in warning for warning in plan.warnings)


def a_sink_log(folder: Path, *names: str) -> str:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("v1\n")
    return str(folder)


def test_a_file_sink_that_is_ahead_refuses_unless_that_is_accepted(
    store: BackupStore, tmp_path: Path
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))
    log = a_sink_log(tmp_path / "out/_spark_metadata", "8", "9.compact", "10", ".10.crc", "x")
    place = Place(to=str(tmp_path / "new"), sink_logs={"": log})

    with pytest.raises(RestoreRefused, match=r"silently drop batches 4 to 10"):
        restore(store, backup.id, place)
    assert not (tmp_path / "new").exists()

    restored = restore(store, backup.id, place, accept=[RefusalCode.SINK_GAP])
    assert codes(restored.plan.accepted) == [RefusalCode.SINK_GAP]
    assert is_sound_at(tmp_path / "new", 3)


def test_nobody_can_accept_a_place_that_is_not_empty(store: BackupStore, tmp_path: Path) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))

    with pytest.raises(ValueError, match="Nobody can accept target_not_empty"):
        restore(
            store,
            backup.id,
            Place(to=str(tmp_path / "new")),
            accept=[RefusalCode.TARGET_NOT_EMPTY],
        )


def test_a_restore_never_writes_over_anything(store: BackupStore, tmp_path: Path) -> None:
    live = run_batches(tmp_path / "ck", 3)
    backup = back_up(store, live)
    before = bytes_of(live)

    with pytest.raises(RestoreRefused, match="is not empty: it has commits, metadata, offsets"):
        restore(store, backup.id, Place(to=str(live)))

    assert bytes_of(live) == before


def test_all_reasons_are_told_at_once(store: BackupStore, tmp_path: Path) -> None:
    backup = back_up(store, golden_checkpoint("4.3.0", "agg_rocks_v2").path, stream="other")
    (tmp_path / "new").mkdir()
    (tmp_path / "new/mine").write_text("")
    known = Circumstances(stream="orders", runtime="3.5.9", wanted_running=True)

    plan = plan_restore(store, backup.id, Place(to=str(tmp_path / "new")), circumstances=known)

    assert codes(plan.refusals) == [
        RefusalCode.TARGET_NOT_EMPTY,
        RefusalCode.OTHER_STREAM,
        RefusalCode.WANTED_RUNNING,
        RefusalCode.FORMAT_TOO_NEW,
    ]


@pytest.mark.parametrize(
    "folders",
    [{"x": "x"}, {}, {"counts": "a", "sums": "a"}],
    ids=["unknown", "none", "one for two"],
)
def test_queries_can_only_be_chosen_from_those_that_are_there(
    store: BackupStore, tmp_path: Path, folders: dict[str, str]
) -> None:
    for name in ("counts", "sums"):
        run_batches(tmp_path / "ck" / name, 1)
    backup = back_up(store, tmp_path / "ck")

    with pytest.raises(RestoreRefused, match=r"has no query|into one folder"):
        plan_restore(store, backup.id, Place(to=str(tmp_path / "new"), folders=folders))


def test_a_damaged_backup_is_never_restored(store: BackupStore, tmp_path: Path) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))
    (pack,) = (tmp_path / "store").rglob("*.tar.gz")
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(data)

    with pytest.raises(BackupDamaged):
        restore(store, backup.id, Place(to=str(tmp_path / "new")))

    assert not (tmp_path / "new").exists()


def test_an_unknown_backup_is_said(store: BackupStore, tmp_path: Path) -> None:
    with pytest.raises(BackupNotFound):
        restore(store, "20260101T000000-000", Place(to=str(tmp_path / "new")))


def test_progress_is_told_to_the_last_file(store: BackupStore, tmp_path: Path) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 3))
    told: list[ProgressNow] = []

    restore(store, backup.id, Place(to=str(tmp_path / "new")), progress=told.append)

    written = [now for now in told if now.phase is Phase.WRITE]
    assert (written[-1].files, written[-1].of) == (backup.files, backup.files)
    assert (written[-1].size, written[-1].of_size) == (backup.size, backup.size)
    assert {now.phase for now in told} >= {Phase.READ, Phase.WRITE, Phase.CHECK}


SCHEMA = "state/0/_stateSchema/default/0_1b4c"
METADATA = "state/0/_metadata/v2/0"


def with_variables(folder: Path, named: str) -> Path:
    """Make a checkpoint whose operator names its schema file by an absolute path."""
    checkpoint = shutil.copytree(golden_checkpoint("4.3.0", "agg_rocks").path, folder)
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": 3,
        "stateSchemaFilePaths": [f"{named}/{SCHEMA}"],
    }
    about = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"},
        "stateStoreInfo": [store],
    }
    for path in (METADATA, SCHEMA):
        (checkpoint / path).parent.mkdir(parents=True)
    (checkpoint / METADATA).write_text(f"v2\n{json.dumps(about)}")
    (checkpoint / f"{METADATA}.crc").write_text("{}")
    shutil.copy(SAMPLES / "state_schema-4.3.0", checkpoint / SCHEMA)
    return checkpoint


@pytest.mark.parametrize(("spelt", "prefix"), [("file:", "file:"), ("file://", "file://")])
def test_absolute_paths_are_rewritten_as_they_were_spelt(
    store: BackupStore, tmp_path: Path, spelt: str, prefix: str
) -> None:
    checkpoint = with_variables(tmp_path / "ck", f"{spelt}{tmp_path}/ck")
    backup = back_up(store, checkpoint)
    shutil.rmtree(checkpoint)

    restore(store, backup.id, Place(to=str(tmp_path / "new")))

    text = (tmp_path / "new" / METADATA).read_text()
    assert f"{prefix}{tmp_path}/new/{SCHEMA}" in text
    assert str(checkpoint) not in text
    assert not (tmp_path / "new" / f"{METADATA}.crc").exists()


def test_paths_that_cannot_be_rewritten_are_a_reason(store: BackupStore, tmp_path: Path) -> None:
    checkpoint = with_variables(tmp_path / "ck", f"file:{tmp_path}/ck")
    metadata = (checkpoint / METADATA).read_bytes().replace(b"0_1b4c", b"0_gone")
    backup = make_backup(store, {f"counts/{METADATA}": metadata, "counts/metadata": b"{}"})

    plan = plan_restore(store, backup.id, Place(to=str(tmp_path / "new")))

    assert codes(plan.refusals) == [RefusalCode.ABSOLUTE_PATHS]


# Killed at every durable step.


def steps_of(store: BackupStore, backup_id: str, to: Path) -> Life:
    life = Life()
    with pytest.MonkeyPatch.context() as patch:
        limit_local(patch, life)
        restore(store, backup_id, Place(to=str(to)))
    return life


def killed_at(store: BackupStore, backup_id: str, to: Path) -> Iterator[int]:
    """Kill the restore before each of its durable steps in turn; yield after each death."""
    steps = steps_of(store, backup_id, to).steps
    shutil.rmtree(to)
    assert steps > 8
    for step in range(1, steps + 1):
        with pytest.MonkeyPatch.context() as patch:
            limit_local(patch, Life(step))
            with pytest.raises(Killed):
                restore(store, backup_id, Place(to=str(to)))
        yield step


def test_a_restore_killed_at_any_step_is_nothing_or_whole_and_can_be_asked_for_again(
    store: BackupStore, tmp_path: Path
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 2))
    to = tmp_path / "restores" / "new"
    to.parent.mkdir()

    for _ in killed_at(store, backup.id, to):
        if to.exists():
            # Killed after the rename: there is nothing left to be done.
            assert is_sound_at(to, 2)
        else:
            restore(store, backup.id, Place(to=str(to)))
        assert is_sound_at(to, 2)
        shutil.rmtree(to)

    restore(store, backup.id, Place(to=str(to)))
    assert [path.name for path in to.parent.iterdir()] == ["new"]


def test_on_an_object_store_a_restore_killed_at_any_step_is_marked_and_finished_later(
    store: BackupStore, tmp_path: Path
) -> None:
    for name in ("counts", "sums"):
        run_batches(tmp_path / "ck" / name, 1)
    backup = back_up(store, tmp_path / "ck")
    place = {"to": "memory://bucket/new"}
    whole = Memory()
    restore(store, backup.id, Place(**place, filesystem=whole))
    expected = {path: file.getvalue() for path, file in whole.store.items()}
    assert whole.life.steps == len(expected) + 4

    for step in range(1, whole.life.steps + 1):
        memory = Memory()
        memory.life = Life(step)
        with pytest.raises(Killed):
            restore(store, backup.id, Place(**place, filesystem=memory))
        memory.life = Life()
        is_marked = any(path.endswith(RESTORE_MARKER) for path in memory.store)
        assert is_marked or not memory.store
        restored = restore(store, backup.id, Place(**place, filesystem=memory))
        assert restored.resumed is is_marked
        assert {path: file.getvalue() for path, file in memory.store.items()} == expected


def test_an_unfinished_restore_is_not_mistaken_for_a_checkpoint(
    store: BackupStore, tmp_path: Path
) -> None:
    first = back_up(store, run_batches(tmp_path / "ck", 1))
    second = back_up(store, run_batches(tmp_path / "ck", 2))
    memory = Memory()
    memory.life = Life(5)
    with pytest.raises(Killed):
        restore(store, first.id, Place(to="memory://bucket/new", filesystem=memory))
    memory.life = Life()
    folders = open_folders("memory://bucket/new", filesystem=memory)

    found = Reader(folders).inspect()
    assert "unfinished_restore" in {problem.code for problem in found.problems}
    with pytest.raises(RestoreRefused, match=f"restore of backup {first.id}"):
        restore(store, second.id, Place(to="memory://bucket/new", filesystem=memory))


def test_a_torn_file_of_the_right_size_is_written_again(store: BackupStore, tmp_path: Path) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 1))
    memory = Memory()
    place = Place(to="memory://bucket/new", filesystem=memory)
    memory.life = Life(3)
    with pytest.raises(Killed):
        restore(store, backup.id, place)
    memory.life = Life()
    (torn,) = (path for path in memory.store if not path.endswith(RESTORE_MARKER))
    whole = memory.cat_file(torn)
    memory.pipe_file(torn, bytes(len(whole)))

    assert restore(store, backup.id, place).resumed

    assert memory.cat_file(torn) == whole


def test_a_restore_that_is_resumed_is_read_back_with_its_contents(
    store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = back_up(store, golden_checkpoint("4.3.0", "agg_rocks").path)
    memory = Memory()
    memory.life = Life(3)
    place = Place(to="memory://bucket/new", filesystem=memory)
    with pytest.raises(Killed):
        restore(store, backup.id, place)
    memory.life = Life()
    put = Memory.pipe_file

    def losing(self: Memory, path: str, value: bytes, **options: Any) -> None:
        put(self, path, bytes(len(value)) if path.endswith(".sst") else value, **options)

    monkeypatch.setattr(Memory, "pipe_file", losing)
    with pytest.raises(RestoreRefused, match="is not sound, so it was given up"):
        restore(store, backup.id, place)

    assert memory.store == {}


def test_the_slower_of_two_equal_restores_leaves_a_live_checkpoint_alone(
    store: BackupStore, tmp_path: Path
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 1))
    memory = Memory()
    place = Place(to="memory://bucket/new", filesystem=memory)
    live: dict[str, bytes] = {}

    def overtaking(now: ProgressNow) -> None:
        if now.phase is Phase.WRITE and not live:
            live["begun"] = b""
            restore(store, backup.id, place)
            for log in ("offsets", "commits"):
                memory.pipe_file(f"/bucket/new/{log}/2", memory.cat_file(f"/bucket/new/{log}/1"))
            live.update({path: file.getvalue() for path, file in memory.store.items()})

    with pytest.raises(RestoreTaken, match="no longer held by this attempt"):
        restore(store, backup.id, place, progress=overtaking)

    del live["begun"]
    assert {path: file.getvalue() for path, file in memory.store.items()} == live


def test_a_store_that_is_away_for_a_while_keeps_the_claim(
    store: BackupStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = back_up(store, run_batches(tmp_path / "ck", 1))
    memory = Memory()
    place = Place(to="memory://bucket/new", filesystem=memory)
    with monkeypatch.context() as patch:
        patch.setattr(Memory, "rm_file", away)
        with pytest.raises(HomeUnavailable):
            restore(store, backup.id, place)

    assert restore(store, backup.id, place).resumed
    assert not any(path.endswith(RESTORE_MARKER) for path in memory.store)


def away(*_: Any) -> None:
    raise OSError("The network is away.")
