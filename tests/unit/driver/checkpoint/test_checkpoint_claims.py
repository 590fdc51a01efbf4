from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from airflow_streaming.driver.checkpoint.checkpoint_claims import Claims, batch_in_work, query_id_in
from airflow_streaming.exceptions import CheckpointMismatch, DriverRefusal, HomeUnavailable
from airflow_streaming.model.records.epoch import QueryClaim
from airflow_streaming.model.storage import LocalStore
from tests.unit.driver.fakes import LAYOUT, AbsentStore, CheckpointFolder


def make_checkpoint(folder: Path, query_id: str | None = None) -> CheckpointFolder:
    if query_id is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata").write_text(json.dumps({"id": query_id}))
    return CheckpointFolder(str(folder))


def make_claims(store: LocalStore, *, deployment: int = 1, epoch: int = 1) -> Claims:
    return Claims(store, LAYOUT, deployment=deployment, epoch=epoch)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(None, None, id="no file"),
        pytest.param("\n", None, id="empty file"),
        pytest.param('{"id":"a-b"}', "a-b", id="Spark's"),
    ],
)
def test_the_query_id_is_read(tmp_path: Path, content: str | None, expected: str | None) -> None:
    if content is not None:
        (tmp_path / "metadata").write_text(content)
    assert query_id_in(LocalStore(str(tmp_path))) == expected


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_metadata_that_is_not_sparks_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "metadata").write_text(content)
    with pytest.raises(CheckpointMismatch):
        query_id_in(LocalStore(str(tmp_path)))


@pytest.mark.parametrize(
    ("offsets", "commits", "expected"),
    [
        pytest.param([], [], None, id="nothing planned"),
        pytest.param([0], [], 0, id="the first one"),
        pytest.param([8, 9, 10], [8, 9], 10, id="planned, not committed"),
        pytest.param([8, 9], [8, 9], 10, id="not even planned"),
    ],
)
def test_the_batch_in_work_is_read_from_the_logs(
    tmp_path: Path, offsets: list[int], commits: list[int], expected: int | None
) -> None:
    make_logs(tmp_path, offsets, commits)
    assert batch_in_work(LocalStore(str(tmp_path))) == expected


def test_a_first_start_leaves_a_claim_that_later_starts_are_held_to(
    store: LocalStore, tmp_path: Path
) -> None:
    first = make_claims(store)
    checkpoint = make_checkpoint(tmp_path / "q")
    first.check("q", checkpoint, checkpoint.location)
    first.keep("q", "id-1", checkpoint.location)
    first.write()

    data = store.read(LAYOUT.place(QueryClaim, deployment=1, query="q"))
    assert data is not None
    claim = QueryClaim.from_bytes(data)
    assert claim == QueryClaim(query="q", query_id="id-1", checkpoint=checkpoint.location, epoch=1)
    assert json.loads(data)["deployment"] == 1
    make_claims(store, epoch=2).check(
        "q", make_checkpoint(tmp_path / "q", "id-1"), checkpoint.location
    )


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        pytest.param(None, "is empty or gone", id="vanished"),
        pytest.param(
            "id-2", "belongs to query id id-2; this stream's query 'q' is id-1", id="other"
        ),
    ],
)
@pytest.mark.parametrize("deployment", [1, 2], ids=["same deployment", "one that kept it"])
def test_a_claimed_checkpoint_with_another_content_is_refused(
    store: LocalStore, tmp_path: Path, found: str | None, sentence: str, deployment: int
) -> None:
    checkpoint = make_checkpoint(tmp_path / "q", found)
    first = make_claims(store)
    first.keep("q", "id-1", checkpoint.location)
    first.write()

    with pytest.raises(CheckpointMismatch, match=sentence) as refusal:
        make_claims(store, deployment=deployment, epoch=2).check(
            "q", checkpoint, checkpoint.location
        )
    assert f"delete {store.uri}/{LAYOUT.place(QueryClaim, deployment=1, query='q')}" in str(
        refusal.value
    )


def test_a_new_deployment_with_a_checkpoint_of_its_own_starts_fresh(
    store: LocalStore, tmp_path: Path
) -> None:
    first = make_claims(store)
    first.keep("q", "id-1", "file:/elsewhere")
    first.write()

    checkpoint = make_checkpoint(tmp_path / "q")
    second = make_claims(store, deployment=2, epoch=2)
    second.check("q", checkpoint, checkpoint.location)
    second.keep("q", "id-2", checkpoint.location)
    second.write()
    assert store.names(LAYOUT.folder("queries")) == ["000001", "000002"]


def test_a_location_that_changes_with_every_restart_is_refused(
    store: LocalStore, tmp_path: Path
) -> None:
    first = make_claims(store)
    first.keep("q", "id-1", "file:/tmp/run-1")
    first.write()
    checkpoint = make_checkpoint(tmp_path / "run-2")

    with pytest.raises(DriverRefusal, match="kept its state in file:/tmp/run-1 until epoch 1"):
        make_claims(store, epoch=2).check("q", checkpoint, checkpoint.location)
    # Within one epoch a script may use a name on one checkpoint after the other.
    first.check("q", checkpoint, checkpoint.location)
    first.keep("q", "id-2", checkpoint.location)
    first.write()
    assert first.find("q", checkpoint.location) is not None


def make_logs(folder: Path, offsets: Sequence[int], commits: Sequence[int]) -> None:
    for log, numbers in (("offsets", offsets), ("commits", commits)):
        (folder / log).mkdir(parents=True)
        for number in numbers:
            (folder / log / str(number)).touch()


@pytest.mark.parametrize(
    ("found", "offsets", "commits", "must_know", "starts"),
    [
        pytest.param("id-1", [], [], False, True, id="nothing is planned"),
        pytest.param("id-1", [7, 8], [7, 8], False, True, id="all batches are committed"),
        pytest.param("id-1", [7, 8], [7], False, False, id="a batch may have to be absorbed"),
        pytest.param("id-1", [0], [], False, False, id="the very first one may have to be"),
        pytest.param("id-1", [7, 8], [7, 8], True, False, id="batch ids matter"),
        pytest.param(None, [], [], False, False, id="an empty checkpoint"),
    ],
)
def test_a_claim_that_cannot_be_read_holds_back_every_query_to_which_it_may_matter(
    tmp_path: Path,
    found: str | None,
    offsets: list[int],
    commits: list[int],
    must_know: bool,
    starts: bool,
) -> None:
    claims = make_claims(AbsentStore(str(tmp_path / "home")))
    checkpoint = make_checkpoint(tmp_path / "q", found)
    make_logs(tmp_path / "q", offsets, commits)
    with contextlib.nullcontext() if starts else pytest.raises(HomeUnavailable):
        claims.check("q", checkpoint, checkpoint.location, must_know=must_know)


def test_a_claim_is_written_as_soon_as_the_home_is_back(tmp_path: Path) -> None:
    store = AbsentStore(str(tmp_path / "home"))
    claims = make_claims(store)
    claims.keep("q", "id-1", "file:/q")
    with pytest.raises(HomeUnavailable):
        claims.write()

    store.present = True
    claims.write()
    assert claims.find("q", "file:/q") is not None
    before = store.calls
    claims.write()
    assert store.calls == before


def test_a_claim_that_is_no_record_is_refused_with_its_path(
    store: LocalStore, tmp_path: Path
) -> None:
    store.create(LAYOUT.place(QueryClaim, deployment=1, query="q"), b"{}")
    checkpoint = make_checkpoint(tmp_path / "q")
    with pytest.raises(DriverRefusal, match=r"queries/000001/q\.json cannot be read"):
        make_claims(store).check("q", checkpoint, checkpoint.location)


@pytest.mark.parametrize("name", ["\u00b2", "3\u00b2", "x", "-1", "1.tmp"])
def test_files_that_are_no_batches_do_not_count(tmp_path: Path, name: str) -> None:
    store = LocalStore(str(tmp_path))
    for log, batches in (("offsets", (0, 1, 2)), ("commits", (0, 1))):
        for batch in batches:
            store.create(f"{log}/{batch}", b"v1")
        (tmp_path / log / name).write_text("planted")

    assert batch_in_work(store) == 2
