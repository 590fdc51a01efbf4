"""Whether a file sink fits a checkpoint is decided in one place, and what cannot be seen is not guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_streaming.checkpoints.restore.replay import OutOfStep, RefusalCode
from airflow_streaming.checkpoints.restore.sink_output import look_at_sink
from airflow_streaming.checkpoints.restore.sink_step import (
    MovedAside,
    SinkSnapshot,
    out_of_step,
    refusal_of,
)

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
