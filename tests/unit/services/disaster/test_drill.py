"""A disaster drill on real backups, with a Spark that is played: what is restored, recorded, resumed and removed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from airflow_streaming.checkpoints.backup.records import Backup
from airflow_streaming.checkpoints.progress import no_progress
from airflow_streaming.checkpoints.vault.store import open_backup_store
from airflow_streaming.exceptions import BackupStoreMissing, RuntimeNotFound, SpecError
from airflow_streaming.gates.findings import GateDecision, GateFinding
from airflow_streaming.gates.rehearsal import Rehearsed, RehearsedQuery
from airflow_streaming.home.home import init_home, open_home
from airflow_streaming.model.jobs.recovery import RecoveryResult as R
from airflow_streaming.model.jobs.recovery import StreamRecovery
from airflow_streaming.model.jobs.rehearsal import Ending
from airflow_streaming.reports.campaigns.disaster import drill_facts, drill_report, worst_verdict
from airflow_streaming.reports.markdown import markdown
from airflow_streaming.services.disaster import drill as module
from airflow_streaming.services.disaster.drill import (
    DrillMember,
    DrillTerms,
    begin_drill,
    run_drill,
)
from airflow_streaming.services.disaster.drills import Drills
from airflow_streaming.services.disaster.place import DrillPlace
from airflow_streaming.spark_jobs.runner import Program
from tests.patience import PATIENCE, until
from tests.unit.checkpoints.restoring import Killed, back_up, bytes_of, run_batches

NAMES = ("clicks", "orders", "views")
LOST = GateFinding(
    rule="rehearsal.input_gone", severity=GateDecision.UNKNOWN, message="Offset 7 is gone."
)
IDLE = GateFinding(
    rule="rehearsal.no_batch", severity=GateDecision.UNKNOWN, message="No new input."
)


class Fleet:
    """A live home with backups in a store beside it, and the home of its drills."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.live, self.store = (
            folder / "live",
            open_backup_store(str(folder / "vault"), create=True),
        )
        self.vault = folder / "vault"
        init_home(str(self.live))
        self.backups = {name: self._backed_up(name) for name in NAMES}
        self.to = folder / "drills"
        self.place = DrillPlace(store=init_home(str(self.to)).store)
        self.scratch = folder / "scratch"
        self.findings: dict[str, tuple[GateFinding, ...]] = {}
        self.runs: list[tuple[str, bool]] = []
        self.told: list[str] = []
        self.during: Callable[[str], None] = lambda _: None
        self.check: Callable[[], Any] = lambda: None
        patch.setattr(module, "rehearse", self._rehearse)

    def _backed_up(self, name: str) -> Backup:
        return back_up(self.store, run_batches(self.live / name / "checkpoint", 4), name)

    def _rehearse(self, place: Any, *_: Any, check: Any, **__: Any) -> Rehearsed:
        name, replays = place.subject.split("'")[1], getattr(place, "replays", False)
        self.runs.append((name, replays))
        copies = place.copies(self.scratch / f"{name}{len(self.runs)}", no_progress)
        assert Path(copies[0].copy, "commits", "4").exists() or copies[0].cut
        self.check = check
        self.during(name)
        check()
        query = RehearsedQuery(query="counts", ending=Ending.CAUGHT_UP, batches=2, input_rows=7)
        findings = () if replays else self.findings.get(name, ())
        return Rehearsed(
            application="job.py",
            spark="4.3.0",
            subject=place.subject,
            seconds=30.0,
            queries=(query,),
            findings=findings,
        )

    def member(self, name: str) -> DrillMember:
        return DrillMember(
            lane=name,
            backups=lambda: self.store,
            program=lambda _: Program(application="job.py", source=b""),
            runtime=lambda _: None,  # type: ignore[arg-type, return-value]
        )

    def begin(self, *streams: str, key: str = "run 1") -> Any:
        return begin_drill(
            self.place,
            str(self.live),
            streams or NAMES,
            backups=str(self.vault),
            open_backups=lambda: self.store,
            selector="",
            key=key,
            by="ada",
            now=datetime.now(UTC) + timedelta(minutes=10),
        )

    def run(self, drill: Any = None, **terms: Any) -> dict[str, StreamRecovery]:
        found = run_drill(
            self.place,
            drill or self.begin(),
            self.member,
            DrillTerms(**terms),
            now=lambda: datetime.now(UTC),
            tell=lambda one: self.told.append(one.name),
        )
        return {one.name: one for one in found}


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    return Fleet(tmp_path, monkeypatch)


def damage(fleet: Fleet, name: str) -> None:
    (pack, *_) = (fleet.vault / name / "packs").glob("*.tar.gz")
    data = bytearray(pack.read_bytes())
    data[len(data) // 2] ^= 1
    pack.write_bytes(bytes(data))


def results(found: dict[str, StreamRecovery]) -> dict[str, R]:
    return {name: one.result for name, one in found.items()}


def test_each_stream_is_restored_elsewhere_and_nothing_live_is_touched(fleet: Fleet) -> None:
    damage(fleet, "orders")
    fleet.findings["views"] = (LOST,)
    before = bytes_of(fleet.live), bytes_of(fleet.vault)
    drill = fleet.begin()

    found = fleet.run(drill, at_once=2)

    assert results(found) == {
        "clicks": R.RECOVERED,
        "orders": R.DAMAGED_BACKUP,
        "views": R.INPUT_GONE,
    }
    assert (bytes_of(fleet.live), bytes_of(fleet.vault)) == before
    clicks = found["clicks"]
    assert clicks.backup == fleet.backups["clicks"].id
    assert clicks.run_seconds == pytest.approx(30.0, abs=2.0)
    assert (clicks.batches, clicks.rows, clicks.kept) == (2, 7, "")
    assert not (fleet.to / "_drill" / "000001").exists()
    told = drill_facts(drill, [*found.values()])
    assert [one["name"] for one in told["streams"]] == ["views", "orders", "clicks"]
    assert told["verdict"] == "lost"
    assert 500 < told["streams"][2]["recovery_point_seconds"] < 700
    page = markdown(drill_report(drill, [*found.values()]))
    assert "Offset 7 is gone." in page
    assert "2 lost, 1 recovered" in page


def test_a_stream_without_a_backup_is_lost(fleet: Fleet) -> None:
    found = fleet.run(fleet.begin("clicks", "payments"))

    assert results(found) == {"clicks": R.RECOVERED, "payments": R.NO_BACKUP}
    assert "has no backup of 'payments'" in found["payments"].reason
    assert worst_verdict([*found.values()]) == "lost"


def test_the_newest_backup_counts_also_where_its_manifest_is_damaged(fleet: Fleet) -> None:
    run_batches(fleet.live / "clicks" / "checkpoint", 6)
    newest = back_up(fleet.store, fleet.live / "clicks" / "checkpoint", "clicks")
    (manifest,) = fleet.vault.rglob(f"{newest.id}*.json")
    manifest.write_bytes(manifest.read_bytes()[:-20])

    assert fleet.run(fleet.begin("clicks"))["clicks"].result is R.DAMAGED_BACKUP
    assert fleet.runs == []


def test_a_fault_of_one_stream_does_not_hold_up_the_others(fleet: Fleet) -> None:
    def member(name: str) -> DrillMember:
        made = fleet.member(name)
        return replace(made, runtime=no_runtime) if name == "clicks" else made

    def no_runtime(_: Backup) -> Any:
        raise RuntimeNotFound("There is no runtime.")

    found = run_drill(
        fleet.place, fleet.begin(), member, DrillTerms(), now=lambda: datetime.now(UTC)
    )

    assert [one.result for one in found] == [R.NOT_TRIED, R.RECOVERED, R.RECOVERED]
    assert found[0].reason == "There is no runtime."


def test_an_idle_query_repeats_its_newest_batch_to_prove_the_state(fleet: Fleet) -> None:
    fleet.findings["clicks"] = (IDLE,)

    found = fleet.run(fleet.begin("clicks"))

    assert fleet.runs == [("clicks", False), ("clicks", True)]
    assert found["clicks"].result is R.RECOVERED


def test_restored_checkpoints_are_kept_as_they_were_restored_if_asked(fleet: Fleet) -> None:
    found = fleet.run(fleet.begin("clicks"), keeps=True)

    kept = Path(found["clicks"].kept)
    assert kept.is_relative_to(fleet.to)
    assert (kept / "commits" / "4").exists()


def test_a_killed_drill_continues_with_the_streams_that_have_no_record(fleet: Fleet) -> None:
    def kill(name: str) -> None:
        if name == "orders":
            raise Killed

    fleet.during = kill
    with pytest.raises(Killed):
        fleet.run()
    lives = [one.name for one in Drills(fleet.place.store).recoveries(fleet.begin()).values()]
    assert lives == ["clicks"]
    (fleet.to / "_drill" / "000001" / "orders-left").mkdir(parents=True)

    fleet.during, fleet.runs = lambda _: None, []
    found = fleet.run()

    assert [name for name, _ in fleet.runs] == ["orders", "views"]
    assert fleet.told == list(NAMES), "each recovery is reported once"
    assert results(found) == dict.fromkeys(NAMES, R.RECOVERED)
    assert not (fleet.to / "_drill" / "000001").exists()
    assert fleet.begin().number == 2, "a finished drill is not continued"


def test_an_interrupt_ends_the_streams_in_progress(fleet: Fleet) -> None:
    is_running = Event()

    def work(name: str) -> None:
        if name == "clicks":
            is_running.wait(PATIENCE)
            raise KeyboardInterrupt
        is_running.set()
        until(lambda: fleet.check() is not None, "the stop")

    fleet.during = work
    with pytest.raises(KeyboardInterrupt):
        fleet.run(at_once=2)

    assert sorted(name for name, _ in fleet.runs) == ["clicks", "orders"]
    assert not [*(fleet.to / "_drill").glob("*/*")]
    assert Drills(fleet.place.store).recoveries(fleet.begin()) == {}


def test_two_runs_of_one_drill_agree_on_one_record(fleet: Fleet) -> None:
    drill = fleet.begin("clicks")
    first = Drills(fleet.place.store)

    def overtake(name: str) -> None:
        first.record(StreamRecovery(drill=1, name=name, result=R.OUT_OF_TIME, at=datetime.now(UTC)))

    fleet.during = overtake

    assert fleet.run(drill)["clicks"].result is R.OUT_OF_TIME


def test_another_request_gets_a_drill_of_its_own(fleet: Fleet) -> None:
    assert [fleet.begin().number, fleet.begin().number, fleet.begin(key="run 2").number] == [
        1,
        1,
        2,
    ]


def test_a_drill_in_the_live_home_is_refused(fleet: Fleet) -> None:
    fleet.place = DrillPlace(store=open_home(str(fleet.live / "drills")).store)

    with pytest.raises(SpecError, match="Choose another place for the home of the drill"):
        fleet.begin()
    assert not (fleet.live / "drills").exists()


def test_a_store_that_goes_away_meanwhile_proves_no_loss(fleet: Fleet) -> None:
    def gone() -> Any:
        raise BackupStoreMissing("The backup store is not in its place.")

    found = run_drill(
        fleet.place,
        fleet.begin("clicks"),
        lambda name: replace(fleet.member(name), backups=gone),
        DrillTerms(),
        now=lambda: datetime.now(UTC),
    )

    assert found[0].result is R.NOT_TRIED


def test_backups_in_the_live_home_are_remarked(fleet: Fleet) -> None:
    fleet.store = open_backup_store(str(fleet.live / "_backups"), create=True)
    back_up(fleet.store, fleet.live / "clicks" / "checkpoint", "clicks")

    assert "takes them, too" in fleet.run(fleet.begin("clicks"))["clicks"].remarks[0]
