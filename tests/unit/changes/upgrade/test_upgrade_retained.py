"""Retention in the middle of an upgrade leaves it its way back, whoever has died meanwhile."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from airflow_streaming.checkpoints.backup.stream_backup import BackupRequest as BackupAsked
from airflow_streaming.checkpoints.backup.stream_backup import back_up_stream
from airflow_streaming.checkpoints.vault.retention import Retained, apply_retention
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.exceptions import HomeUnavailable
from airflow_streaming.home.home import Home, open_home
from airflow_streaming.model.arguments.choices import Level, Origin
from airflow_streaming.model.arguments.keeping import RetentionPolicy
from airflow_streaming.model.records.control import ChangeOutcome
from airflow_streaming.model.records.upgrade_table import Stage
from tests.unit.changes.upgrade.upgrading import Upgraded, end_of

LAST = RetentionPolicy(keep_last=1, origins={Origin.BEFORE_UPGRADE: RetentionPolicy(keep_last=1)})


def opened(uri: str) -> Home:
    return open_home(uri)


def away(uri: str) -> Home:
    raise HomeUnavailable(f"{uri} is away.")


def retain(stream: Upgraded, homes: object = opened) -> Retained:
    """Take and verify two newer backups as a dag does, and let the older ones go."""
    for _ in range(2):
        asked = BackupAsked(origin=Origin.BEFORE_UPGRADE, by="somebody", clock=lambda: stream.now)
        stream.now += timedelta(seconds=1)
        taken = back_up_stream(stream.home, stream.store, asked).id
        verify(stream.store, taken, Level.FULL, by="test", now=stream.now, stream="orders")
    return apply_retention(
        *(stream.store, "orders", LAST), by="test", clock=lambda: stream.now, homes=homes
    )


def ids(stream: Upgraded) -> set[str]:
    return {backup.id for backup in stream.store.backups("orders")}


def needed(stream: Upgraded) -> set[str]:
    """Return the backups that the upgrade has recorded."""
    facts = [reached.facts for reached in stream.home.stages(1).values()]
    return {one[name] for one in facts for name in ("backup", "boundary") if name in one}


@pytest.mark.parametrize("until", [Stage.BACKED_UP, Stage.STOPPED, Stage.LAUNCHED, Stage.JUDGED])
def test_no_backup_of_an_open_upgrade_goes_and_all_go_when_it_has_ended(
    until: Stage, tmp_path: Path
) -> None:
    stream = Upgraded(tmp_path, "works")
    stream.begin()
    stream.drive(until)

    during = retain(stream)

    assert needed(stream) <= ids(stream)
    assert any("has not ended" in line for line in during.plan.lines())
    stream.drive(Stage.KEPT)
    retain(stream)
    assert needed(stream).isdisjoint(ids(stream))


def test_it_goes_back_to_the_boundary_after_retention_was_run_at_every_look(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, "fails after two")
    stream.begin()
    while not stream.advance(Stage.KEPT).is_there:
        retain(stream)
        stream.tick()

    end = end_of(stream)
    assert end is not None
    assert end.outcome is ChangeOutcome.ROLLED_BACK
    assert Stage.RESTORED in stream.home.stages(1)


def test_a_backup_stays_that_a_killed_worker_took_and_did_not_write_down(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, "works")
    before = ids(stream)
    stream.begin()
    engine = stream.engine()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            type(stream.home), "take_step", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            engine.advance(Stage.BACKED_UP)
    taken = ids(stream) - before
    assert taken
    assert not needed(stream)

    retain(stream)

    assert taken <= ids(stream)


def test_a_home_that_is_away_has_ended_no_change(tmp_path: Path) -> None:
    stream = Upgraded(tmp_path, "works")
    stream.begin()
    stream.drive(Stage.KEPT)

    unasked = retain(stream, homes=away)

    assert needed(stream) <= ids(stream)
    assert any("could not be read" in line for line in unasked.plan.lines())
