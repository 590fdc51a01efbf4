"""Whether a file sink fits a checkpoint is decided in one place, and what cannot be seen is not guessed."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.checkpoints.restore.replay import OutOfStep, RefusalCode
from airflow_streaming.checkpoints.restore.sink_output import look_at_sink
from airflow_streaming.checkpoints.restore.sink_step import (
    MovedAside,
    SinkSnapshot,
    out_of_step,
    refusal_of,
    step_of,
)
from airflow_streaming.storage.folders import open_folders

GAP, SKIPS, BEHIND = (
    RefusalCode.SINK_GAP,
    RefusalCode.SINK_SKIPS_STATE,
    RefusalCode.SINK_BEHIND,
)
Step = tuple[RefusalCode, int, int]


@pytest.mark.parametrize("rewinds", [False, True], ids=["left", "rewound"])
@pytest.mark.parametrize(
    ("batch", "planned", "sink", "stateless", "stateful"),
    [
        (4, 4, None, None, None),
        (4, 4, 4, None, None),
        (4, 5, 4, None, None),
        # Planned and written: it has its old limits, but its state is not in the checkpoint.
        (4, 5, 5, None, (SKIPS, 5, 5)),
        (4, 4, 5, (GAP, 5, 5), (SKIPS, 5, 5)),
        (4, 5, 9, (GAP, 6, 9), (SKIPS, 5, 9)),
        (4, 4, 3, (BEHIND, 4, 4), (BEHIND, 4, 4)),
        (4, 5, -1, (BEHIND, 0, 4), (BEHIND, 0, 4)),
        (-1, -1, -1, None, None),
        (-1, 0, 0, None, (SKIPS, 0, 0)),
        (-1, -1, 2, (GAP, 0, 2), (SKIPS, 0, 2)),
    ],
)
@pytest.mark.parametrize("is_stateful", [False, True], ids=["stateless", "stateful"])
def test_a_sink_and_a_checkpoint_fit_or_it_is_said_how_they_do_not(
    batch: int,
    planned: int,
    sink: int | None,
    stateless: Step | None,
    stateful: Step | None,
    is_stateful: bool,
    rewinds: bool,
) -> None:
    expected = stateful if is_stateful else stateless
    if rewinds and expected is not None and expected[0] is not BEHIND:
        # What the sink has after the checkpoint is moved aside; what it lacks comes from nowhere.
        expected = None

    found = out_of_step(batch, planned, sink, is_stateful=is_stateful, rewinds=rewinds)

    assert (found and (found.code, found.first, found.last)) == expected


@pytest.mark.parametrize(
    ("committed", "planned", "sink", "expected"),
    [
        (4, 5, 5, None),
        (4, None, 5, (GAP, 5, 5)),
        (4, 3, 5, (GAP, 5, 5)),
        (None, 0, 0, None),
        (None, None, 0, (GAP, 0, 0)),
        (None, None, -1, None),
    ],
)
def test_a_report_without_a_commit_or_a_plan_stands_before_its_first_batch(
    committed: int | None, planned: int | None, sink: int, expected: Step | None
) -> None:
    report = Checkpoint(uri="/ck", last_committed_batch=committed, last_planned_batch=planned)

    found = step_of(report, sink)

    assert (found and (found.code, found.first, found.last)) == expected


def test_what_was_moved_aside_is_named_where_it_holds_what_is_missing() -> None:
    step = OutOfStep(code=BEHIND, first=4, last=6)
    aside = (
        MovedAside(uri="/out/_rolled_back/1-a", batches=frozenset({5, 6})),
        MovedAside(uri="/out/_rolled_back/2-b", batches=frozenset({7})),
    )

    refusal = refusal_of("counts", 6, step, aside)

    assert (refusal.code, refusal.query) == (BEHIND, "counts")
    assert "/out/_rolled_back/1-a" in refusal.message
    assert "2-b" not in refusal.message


def test_a_log_is_seen_with_what_was_moved_out_of_it(tmp_path: Path) -> None:
    log, aside = tmp_path / "_spark_metadata", tmp_path / "_rolled_back/000001-b/log"
    for folder, names in {log: ("2", "3.compact", ".3.compact.crc"), aside: ("4", "5")}.items():
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_text("v1\n")

    moved = MovedAside(uri=str(aside.parent), batches=frozenset({4, 5}))
    assert look_at_sink(str(log), None) == SinkSnapshot(log=str(log), newest=3, aside=(moved,))


def test_an_empty_log_is_not_a_log_that_cannot_be_seen(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    assert look_at_sink(str(tmp_path / "empty"), None).newest == -1
    unseen = look_at_sink(str(tmp_path / "unmounted/_spark_metadata"), None)
    assert unseen.newest is None
    assert unseen.unseen


WHOLE = 'v1\n{"path":"file:///out/a","size":1,"action":"add"}'
TORN = WHOLE[:12]


@pytest.mark.parametrize(
    ("log", "newest", "is_seen"),
    [
        pytest.param({"1": WHOLE, "2": "v1"}, 2, True, id="a batch without a file"),
        pytest.param({"1": TORN, "2": ""}, 2, False, id="empty"),
        pytest.param({"1": WHOLE, "2": TORN}, 2, False, id="torn"),
        pytest.param({"1": WHOLE, "2": "v9\n{}"}, 2, False, id="of a version that is not known"),
        pytest.param({"1": WHOLE, "2": None}, 2, False, id="a folder"),
        pytest.param({"1": TORN, "2": WHOLE}, 2, True, id="only an older one is torn"),
        pytest.param({"2": WHOLE, "3.compact": TORN}, 3, False, id="a compacted one is torn"),
        pytest.param({"3": TORN, "3.compact": WHOLE}, 3, True, id="a compacted one stands above"),
        pytest.param({"3": WHOLE, ".4.crc": "", "x": ""}, 3, True, id="others are no entries"),
        pytest.param({"1": WHOLE, "2": WHOLE * 99}, 2, True, id="too large to be looked into"),
    ],
)
@pytest.mark.parametrize("filesystem", ["", "file"], ids=["local", "fsspec"])
def test_a_log_is_seen_when_its_newest_entry_can_be_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    log: dict[str, str | None],
    newest: int,
    is_seen: bool,
    filesystem: str,
) -> None:
    monkeypatch.setattr("airflow_streaming.checkpoints.restore.sink_output.MAX_SINK_LOG_BYTES", 999)
    for name, text in log.items():
        if text is None:
            (tmp_path / name).mkdir()
        else:
            (tmp_path / name).write_text(text)
    opened = open_folders(
        str(tmp_path), filesystem=(filesystem and fsspec.filesystem("file")) or None
    )
    monkeypatch.setattr(
        "airflow_streaming.checkpoints.restore.sink_output.open_folders", lambda *_: opened
    )

    seen = look_at_sink(str(tmp_path), None)

    assert (seen.newest, not seen.unseen) == (newest, is_seen)
