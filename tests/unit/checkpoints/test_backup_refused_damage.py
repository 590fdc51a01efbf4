"""What is wrong with a live checkpoint never becomes a backup that looks right."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.backup.backup import take_backup
from airflow_streaming.checkpoints.backup.live_copy import sources_of
from airflow_streaming.checkpoints.read.report import FindingCode
from airflow_streaming.checkpoints.reader import inspect
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.exceptions import CheckpointRefused
from airflow_streaming.model.arguments.choices import Origin
from airflow_streaming.storage.folders import open_folders
from tests.golden import golden_checkpoint

Damage = Callable[[Path], None]


def flip(path: Path, at: int = -30) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def newest_delta(checkpoint: Path) -> None:
    flip(checkpoint / "state" / "0" / "0" / "7.delta")


def newest_changelog_on_an_object_store(checkpoint: Path) -> None:
    """Hadoop keeps no checksums there; Spark's own are left."""
    for hidden in checkpoint.rglob(".*.crc"):
        hidden.unlink()
    [changelog] = (checkpoint / "state" / "0" / "0").glob("7_*.changelog")
    flip(changelog)


def plan(checkpoint: Path) -> None:
    file = checkpoint / "offsets" / "6"
    file.write_text(file.read_text().replace('"batchTimestampMs":1', '"batchTimestampMs":2'))


def old_plan(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "1").write_text("v1\n{")
    (checkpoint / "offsets" / ".1.crc").unlink()


def old_commit(checkpoint: Path) -> None:
    (checkpoint / "commits" / "1").write_text("v1\n{")
    (checkpoint / "commits" / ".1.crc").unlink()


def second_operator(checkpoint: Path) -> None:
    (checkpoint / "state" / "1").mkdir()


@pytest.mark.parametrize(
    ("shape", "damage", "named"),
    [
        pytest.param("agg", newest_delta, "7.delta", id="a bit of a delta"),
        pytest.param(
            "agg_rocks_v2", newest_changelog_on_an_object_store, ".changelog", id="of a changelog"
        ),
        pytest.param("agg", plan, "offsets/6", id="an edited plan"),
        pytest.param("agg", old_plan, "offsets/1", id="a torn plan of an old batch"),
        pytest.param("agg", old_commit, "commits/1", id="a torn commit of an old batch"),
        pytest.param("agg", second_operator, "operator 1", id="an operator without its state"),
    ],
)
def test_it_is_not_backed_up(tmp_path: Path, shape: str, damage: Damage, named: str) -> None:
    checkpoint = golden_checkpoint("4.3.0", shape).copy_to(tmp_path / "live")
    damage(checkpoint)
    store = open_backup_store(str(tmp_path / "store"), create=True)

    with pytest.raises(CheckpointRefused, match=named):
        take_backup(
            sources_of(open_folders(str(checkpoint))),
            store,
            stream="counts",
            origin=Origin.MANUAL,
            by="test",
            clock=lambda: datetime.now(UTC),
        )

    assert store.backups() == []


def one_store_of_the_join(checkpoint: Path) -> None:
    for folder in (checkpoint / "state" / "0").glob("*/left-keyToNumValues"):
        shutil.rmtree(folder)


def both_logs(checkpoint: Path) -> None:
    for name in ("offsets", "commits"):
        shutil.rmtree(checkpoint / name)


def one_commit_of_few(checkpoint: Path) -> None:
    (checkpoint / "commits" / "2").unlink()


@pytest.mark.parametrize(
    ("spark", "shape", "damage", "code"),
    [
        pytest.param(
            "3.5.9",
            "join",
            one_store_of_the_join,
            FindingCode.STATE_MISSING,
            id="one of a join's four stores, without metadata that names them",
        ),
        pytest.param(
            "4.3.0", "agg", both_logs, FindingCode.OFFSETS_MISSING, id="both logs, with state left"
        ),
        pytest.param(
            "4.3.0",
            "stateless",
            both_logs,
            FindingCode.OFFSETS_MISSING,
            id="both logs, with a source's log left",
        ),
        pytest.param(
            "4.3.0",
            "join_rocks",
            one_commit_of_few,
            FindingCode.COMMITS_GAP,
            id="a commit of a query with state, which has no asynchronous progress",
        ),
    ],
)
def test_its_loss_is_a_problem(
    tmp_path: Path, spark: str, shape: str, damage: Damage, code: FindingCode
) -> None:
    checkpoint = golden_checkpoint(spark, shape).copy_to(tmp_path / "live")
    damage(checkpoint)

    assert code in {problem.code for problem in inspect(str(checkpoint)).problems}


def test_a_link_that_leads_to_itself_is_told_like_any_other(tmp_path: Path) -> None:
    checkpoint = golden_checkpoint("4.3.0", "agg").copy_to(tmp_path / "live")
    (checkpoint / "loop").symlink_to("loop")

    assert [problem.code for problem in inspect(str(checkpoint)).problems] == [
        FindingCode.STRANGE_FILE
    ]
