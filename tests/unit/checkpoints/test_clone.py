"""A clone is a query of its own; a carry-over keeps only the position; the original is not touched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.restore.clone import Cloned, carry_over, clone
from airflow_streaming.exceptions import (
    CheckpointRefused,
    HomeUnavailable,
    RestoreRefused,
    RestoreTaken,
    SpecError,
)
from airflow_streaming.model.spark.listing import RESTORE_MARKER
from airflow_streaming.storage import folders as folders_module
from airflow_streaming.storage.trees import DirHandleCache
from tests.conftest import REPOSITORY
from tests.golden import golden_checkpoint
from tests.unit.checkpoints.restoring import (
    Killed,
    Life,
    Memory,
    is_sound_at,
    limit_local,
    run_batches,
)

SAMPLES = REPOSITORY / "tests/unit/checkpoints/state_variables"


def tree_of(folder: Path) -> dict[str, tuple[bytes, int]]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in found
    }


@pytest.mark.parametrize("shape", ["stateless", "agg_rocks_v2"])
def test_a_clone_is_whole_and_the_original_is_as_it_was(shape: str, tmp_path: Path) -> None:
    original = golden_checkpoint("4.3.0", shape).path
    before = tree_of(original)

    made = clone(str(original), str(tmp_path / "new"))

    assert tree_of(original) == before
    assert is_sound_at(tmp_path / "new", made.batch)
    new = tree_of(tmp_path / "new")
    assert made.files == len(new)
    changed = {path for path, (data, _) in new.items() if data != before[path][0]}
    assert changed == {"metadata"}


def test_a_clone_is_a_query_of_its_own_unless_it_is_a_move(tmp_path: Path) -> None:
    original = run_batches(tmp_path / "ck", 3)

    other = clone(str(original), str(tmp_path / "a"))
    named = clone(str(original), str(tmp_path / "b"), query_id="a-b-c-d-e")
    same = clone(str(original), str(tmp_path / "c"), keep_query_id=True)

    assert other.query_id not in ("", "1-0-0-0-1")
    assert inspect(other.uri).query_id == other.query_id
    assert (named.query_id, inspect(named.uri).query_id) == ("a-b-c-d-e", "a-b-c-d-e")
    assert (same.query_id, inspect(same.uri).query_id) == ("1-0-0-0-1", "1-0-0-0-1")


def test_a_clone_names_its_own_files(tmp_path: Path) -> None:
    path, schema = "state/0/_metadata/v2/0", "state/0/_stateSchema/default/0_1b4c"
    original = shutil.copytree(golden_checkpoint("4.3.0", "agg_rocks").path, tmp_path / "ck")
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": 3,
        "stateSchemaFilePaths": [f"file:{original}/{schema}"],
    }
    about = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateInPandasExec"},
        "stateStoreInfo": [store],
    }
    for name in (path, schema):
        (original / name).parent.mkdir(parents=True)
    (original / path).write_text(f"v2\n{json.dumps(about)}")
    (original / f"{path}.crc").write_text("{}")
    shutil.copy(SAMPLES / "state_schema-4.3.0", original / schema)

    made = clone(str(original), str(tmp_path / "new"))

    assert f"file:{tmp_path}/new/{schema}" in (tmp_path / "new" / path).read_text()
    assert not (tmp_path / "new" / f"{path}.crc").exists()
    assert made.checkpoint.is_sound


def test_a_file_that_is_purged_under_the_copy_is_no_part_of_the_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = run_batches(tmp_path / "ck", 4)
    reads: list[str] = []
    read = folders_module.read_local

    def purging(root: str, path: str, limit: int, near: DirHandleCache) -> bytes | None:
        reads.append(path)
        if path == "offsets/0" and reads.count(path) == 1:
            for log in ("offsets", "commits"):
                (live / log / "0").unlink()
            run_batches(live, 6)
            for log in ("offsets", "commits"):
                (live / log / "0").unlink()
        return read(root, path, limit, near)

    monkeypatch.setattr(folders_module, "read_local", purging)

    made = clone(str(live), str(tmp_path / "new"))

    assert reads.count("offsets/0") == 1
    assert made.batch == 6
    assert is_sound_at(tmp_path / "new", 6)
    assert not (tmp_path / "new/offsets/0").exists()


@pytest.mark.parametrize("make", [clone, lambda a, b: carry_over(a, b, stateless=True)])
def test_nothing_is_ever_written_over(make: Callable[..., Cloned], tmp_path: Path) -> None:
    original = run_batches(tmp_path / "ck", 3)
    before = tree_of(original)

    with pytest.raises(SpecError, match="same place"):
        make(str(original), str(original))
    with pytest.raises(RestoreRefused, match="is not empty: it has commits, metadata") as refused:
        make(str(original), str(run_batches(tmp_path / "other", 1)))
    # No other process has done anything there.
    assert not isinstance(refused.value, RestoreTaken)

    assert tree_of(original) == before


@pytest.mark.parametrize("make", [clone, lambda a, b: carry_over(a, b, stateless=True)])
@pytest.mark.parametrize("to", ["ck/state/copy", "link/state/copy", "."])
def test_a_copy_never_lies_inside_what_it_is_made_of(
    make: Callable[..., Cloned], to: str, tmp_path: Path
) -> None:
    original = run_batches(tmp_path / "ck", 3)
    (tmp_path / "link").symlink_to(original)
    before = tree_of(original)

    with pytest.raises(SpecError, match="do not lie apart") as refused:
        make(str(original), str(tmp_path / to))

    assert str(original) in str(refused.value)
    assert str(tmp_path / to) in str(refused.value)
    assert tree_of(original) == before
    assert not (original / "state").exists()


@pytest.mark.parametrize("make", [clone, lambda a, b: carry_over(a, b, stateless=True)])
def test_what_cannot_be_copied_leaves_nothing(make: Callable[..., Cloned], tmp_path: Path) -> None:
    original = run_batches(tmp_path / "ck", 3)
    (original / "commits/2").unlink()

    with pytest.raises(CheckpointRefused):
        make(str(original), str(tmp_path / "new"))

    assert [path.name for path in tmp_path.iterdir()] == ["ck"]


def test_a_carry_over_is_sound_and_another_query(tmp_path: Path) -> None:
    original = golden_checkpoint("4.3.0", "stateless").path

    made = carry_over(str(original), str(tmp_path / "new"), stateless=True)

    old, new = inspect(str(original)), inspect(made.uri)
    assert new.is_sound
    assert new.query_id == made.query_id != old.query_id
    assert (new.last_committed_batch, new.sources) == (old.last_committed_batch, old.sources)
    assert new.files < old.files


def test_a_purge_under_a_carry_over_leads_to_a_newer_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = run_batches(tmp_path / "ck", 4)
    read, reads = folders_module.read_local, []

    def purging(root: str, path: str, limit: int, near: DirHandleCache) -> bytes | None:
        reads.append(path)
        # It was read once to be pinned.
        if path == "commits/4" and reads.count(path) == 2:
            run_batches(live, 6)
            for batch in range(5):
                for log in ("offsets", "commits"):
                    (live / log / str(batch)).unlink()
        return read(root, path, limit, near)

    monkeypatch.setattr(folders_module, "read_local", purging)

    made = carry_over(str(live), str(tmp_path / "new"), stateless=True)

    assert reads.count("commits/4") >= 2
    assert made.batch == 6
    assert is_sound_at(tmp_path / "new", 6)


def test_a_batch_whose_plan_is_younger_than_its_input_is_not_carried_over(tmp_path: Path) -> None:
    live = golden_checkpoint("4.3.0", "stateless").copy_to(tmp_path / "ck")
    batch = inspect(str(live)).last_committed_batch
    plan = (live / f"offsets/{batch}").read_text()
    (live / f"offsets/{int(batch or 0) + 1}").write_text(
        plan.replace(f'"logOffset":{batch}', '"logOffset":99')
    )

    with pytest.raises(CheckpointRefused, match="names input that"):
        carry_over(str(live), str(tmp_path / "new"), stateless=True)


@pytest.mark.parametrize(
    ("shape", "stateless", "sentence"),
    [("agg", True, "has state"), ("stateless", False, "stateless=True")],
)
def test_a_carry_over_of_what_has_or_may_have_state_is_refused(
    shape: str, stateless: bool, sentence: str, tmp_path: Path
) -> None:
    original = golden_checkpoint("4.3.0", shape).path

    with pytest.raises(CheckpointRefused, match=sentence):
        carry_over(str(original), str(tmp_path / "new"), stateless=stateless)

    assert list(tmp_path.iterdir()) == []


def on_an_object_store(checkpoint: Path) -> Memory:
    memory = Memory()
    for path in checkpoint.rglob("*"):
        if path.is_file():
            memory.pipe_file(f"/bucket/ck/{path.relative_to(checkpoint)}", path.read_bytes())
    return memory


def away(*_: Any, **__: Any) -> None:
    raise OSError("The network is away.")


REMOTE = [clone, lambda a, b, **how: carry_over(a, b, stateless=True, **how)]


@pytest.mark.parametrize("make", REMOTE, ids=["clone", "carry-over"])
@pytest.mark.parametrize("cut", ["commits/1", "metadata", RESTORE_MARKER])
def test_what_is_cut_off_on_an_object_store_is_removed_and_can_be_asked_for_again(
    make: Callable[..., Cloned], cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = on_an_object_store(run_batches(tmp_path / "ck", 1))
    put = Memory.pipe_file

    def breaking(self: Memory, path: str, value: bytes, **options: Any) -> None:
        put(self, path, value, **options)
        if path.endswith(f"new/{cut}"):
            away()

    with monkeypatch.context() as patch:
        patch.setattr(Memory, "pipe_file", breaking)
        with pytest.raises(HomeUnavailable):
            make("memory://bucket/ck", "memory://bucket/new", filesystem=memory)
    assert not any("/new/" in path for path in memory.store)

    assert make("memory://bucket/ck", "memory://bucket/new", filesystem=memory).batch == 1


@pytest.mark.parametrize("make", REMOTE, ids=["clone", "carry-over"])
def test_what_cannot_be_removed_either_is_named(
    make: Callable[..., Cloned], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = on_an_object_store(run_batches(tmp_path / "ck", 1))
    with monkeypatch.context() as patch:
        patch.setattr(Memory, "rm_file", away)
        with pytest.raises(HomeUnavailable, match=r"delete the folder memory://bucket/new "):
            make("memory://bucket/ck", "memory://bucket/new", filesystem=memory)

    with pytest.raises(RestoreRefused, match="clone or carry-over to there was not finished"):
        make("memory://bucket/ck", "memory://bucket/new", filesystem=memory)


def test_a_clone_on_an_object_store_is_marked_until_it_is_whole(tmp_path: Path) -> None:
    memory = Memory()
    seed = clone(str(run_batches(tmp_path / "ck", 1)), str(tmp_path / "seed"), keep_query_id=True)
    for path in (tmp_path / "seed").rglob("*"):
        if path.is_file():
            memory.pipe_file(f"/bucket/ck/{path.relative_to(seed.uri)}", path.read_bytes())
    taken = memory.life.steps

    clone("memory://bucket/ck", "memory://bucket/new", filesystem=memory)
    steps = memory.life.steps - taken

    names = {path.removeprefix("/bucket/new/") for path in memory.store if "/new/" in path}
    assert names == {"metadata", "offsets/0", "offsets/1", "commits/0", "commits/1"}
    for step in range(2, steps + 1):
        other: dict[str, Any] = {"filesystem": memory}
        memory.life = Life(step)
        with pytest.raises(Killed):
            clone("memory://bucket/ck", f"memory://bucket/new-{step}", **other)
        memory.life = Life()
        assert f"/bucket/new-{step}/{RESTORE_MARKER}" in memory.store


def test_a_clone_killed_at_any_step_is_nothing_or_whole(tmp_path: Path) -> None:
    original, to = run_batches(tmp_path / "ck", 1), tmp_path / "new"
    step = 0
    while True:
        step += 1
        is_killed = False
        with pytest.MonkeyPatch.context() as patch:
            limit_local(patch, Life(step))
            try:
                clone(str(original), str(to))
            except Killed:
                is_killed = True
        assert not to.exists() or is_sound_at(to, 1)
        if not is_killed:
            break
        shutil.rmtree(to, ignore_errors=True)
    assert step > 8
    assert to.exists()
