"""Pruning on a real home: removals, files that stay, and the rest after a death half-way."""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.pruning.decide import CLAIMS_KEPT, SIZES_KEPT, TIMELINES_KEPT
from airflow_streaming.changes.restore.undo import undo
from airflow_streaming.exceptions import HomeUnavailable, RestoreRefused, SpecError
from airflow_streaming.home.home import StreamHome, open_home
from airflow_streaming.model.arguments.keeping import PrunePolicy
from airflow_streaming.model.names import Layout, numbered
from airflow_streaming.model.products.freshness import Timeline
from airflow_streaming.model.products.windows import ClaimOutcome, SeriesState, WindowClaim
from airflow_streaming.model.records.control import (
    DesiredState,
    Event,
    EventKind,
    Removal,
    RemovalKind,
)
from airflow_streaming.model.records.epoch import Epoch, Outcome
from airflow_streaming.model.spark.plan import QueryPlan, SinkPlan, SourcePlan
from airflow_streaming.model.uris import digest_of
from airflow_streaming.services.pruning import prune
from airflow_streaming.storage.blobs import LocalBlobs
from tests.fakes import FakeLauncher
from tests.unit.changes.pruning.old import NOW, Kept, ago, old_stream
from tests.unit.home.make import SCRIPT, make_deployment, make_epoch


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return old_stream(tmp_path)


def test_old_epochs_and_the_abandoned_checkpoint_go(kept: Kept):
    done = kept.prune()
    assert kept.lane().epoch_numbers() == [7, 9, 10, 11]
    assert not (kept.folder / "orders/epochs/000001").exists()
    assert not (kept.folder / "orders/checkpoints/000001").exists()
    assert (kept.folder / "orders/checkpoints/000002/revenue/metadata").is_file()
    assert (kept.folder / "orders/output/000001/revenue/metadata").is_file()
    assert (done.problems, done.files > 0, done.size > 0) == ((), True, True)


def test_a_dry_run_writes_nothing_and_finds_the_same(kept: Kept):
    before = kept.files()
    planned = kept.prune(dry_run=True)
    assert kept.files() == before
    done = kept.prune()
    assert (planned.removed, planned.files) == (done.removed, done.files)


def test_it_leaves_one_line_on_the_timeline_and_none_when_nothing_went(kept: Kept):
    kept.prune()
    kept.prune()
    told = [event for event in kept.lane().events() if event.event is EventKind.PRUNED]
    assert [(event.by, event.facts["checkpoint"]) for event in told] == [("kim", "1")]


def test_a_second_run_finds_nothing(kept: Kept):
    kept.prune()
    assert kept.prune().removed == ()


def test_outputs_go_when_asked_for(kept: Kept):
    kept.prune(policy=PrunePolicy(outputs=True))
    assert not (kept.folder / "orders/output/000001").exists()
    assert (kept.folder / "orders/output/000002").exists()


def test_an_output_stays_when_backups_cannot_be_read(kept: Kept):
    kept.prune(policy=PrunePolicy(outputs=True), backed_up=lambda _: None)
    assert (kept.folder / "orders/output/000001").exists()


def test_nothing_goes_while_a_change_is_open(kept: Kept):
    kept.change(1, ends=None)
    before = kept.files() - {"_store/prune-clock.json"}
    assert kept.prune().plan.blocked
    assert kept.files() - {"_store/prune-clock.json"} == before


def test_a_restored_checkpoint_of_a_recent_change_stays(tmp_path: Path):
    kept = Kept(tmp_path)
    kept.deploy(100)
    kept.deploy(3, place="restored-000001")
    kept.change(3, ends=3)
    assert kept.prune().removed == ()


def test_a_checkpoint_that_another_stream_goes_on_from_stays(kept: Kept):
    other = kept.lane("billing")
    used = f"{kept.folder}/orders/checkpoints/000001"
    other.create_deployment(make_deployment(stream="billing", checkpoint=used), SCRIPT)
    kept.prune()
    assert (kept.folder / "orders/checkpoints/000001").exists()


def deploy_billing(kept: Kept) -> StreamHome:
    """Deploy another stream of the home, in folders of its own."""
    home = kept.lane("billing")
    number = len(home.deployment_numbers()) + 1
    places = {"checkpoint": "/billing/checkpoints", "output": "/billing/output"}
    home.create_deployment(make_deployment(number, stream="billing", **places), SCRIPT)
    return home


def bills(**places: Any) -> QueryPlan:
    """The plan of another stream's query, which reads, writes and keeps its checkpoint somewhere."""
    sink = SinkPlan(sink="file", target=places.get("writes", "/elsewhere/out"))
    source = SourcePlan(source="file", paths=(places.get("reads", "/elsewhere/in"),))
    return QueryPlan(
        query="bills",
        spark="4.3.0",
        output_mode="append",
        sink=sink,
        sources=(source,),
        checkpoint=places.get("keeps", ""),
    )


@pytest.mark.parametrize(
    ("places", "stays"),
    [
        ({"reads": "file:{home}/orders/output/000001/revenue"}, "output"),
        ({"reads": "{home}/orders/output/000001/revenue/*.parquet"}, "output"),
        ({"writes": "{home}/orders/output/000001/bills"}, "output"),
        ({"keeps": "file:{home}/orders/checkpoints/000001/bills"}, "checkpoints"),
        ({}, ""),
    ],
)
def test_what_the_queries_of_another_stream_use_stays(
    kept: Kept, places: dict[str, str], stays: str
):
    other = deploy_billing(kept)
    other.create_epoch(make_epoch(1, stream="billing", created_at=ago(90)))
    plan = bills(**{what: place.format(home=kept.folder) for what, place in places.items()})
    place = Layout("billing").place(QueryPlan, epoch=1, query=plan.query)
    kept.home.store.create(place, plan.to_bytes("billing"))

    done = kept.prune(policy=PrunePolicy(outputs=True))

    old = (kept.folder / f"orders/{what}/000001" for what in ("checkpoints", "output"))
    assert [path.parent.name for path in old if path.exists()] == ([stays] if stays else [])
    assert done.problems == ()


def test_nothing_goes_while_the_plan_of_another_stream_cannot_be_read(kept: Kept):
    other = deploy_billing(kept)
    other.create_epoch(make_epoch(1, stream="billing", created_at=ago(90)))
    kept.home.store.create(Layout("billing").place(QueryPlan, epoch=1, query="bills"), b"{")

    done = kept.prune(policy=PrunePolicy(outputs=True))

    assert (kept.folder / "orders/output/000001").exists()
    assert any("bills.json" in problem for problem in done.problems)


def test_a_new_deployment_without_plans_uses_what_the_one_before_it_used(kept: Kept):
    other = deploy_billing(kept)
    other.create_epoch(make_epoch(1, stream="billing", created_at=ago(90)))
    plan = bills(reads=f"{kept.folder}/orders/output/000001/revenue")
    place = Layout("billing").place(QueryPlan, epoch=1, query=plan.query)
    kept.home.store.create(place, plan.to_bytes("orders"))
    deploy_billing(kept)

    kept.prune(policy=PrunePolicy(outputs=True))

    assert (kept.folder / "orders/output/000001").exists()


def test_a_home_under_a_link_is_the_same_home(kept: Kept, tmp_path: Path):
    (tmp_path / "link").symlink_to(kept.folder)
    kept.home, kept.blobs = (
        open_home(str(tmp_path / "link")),
        LocalBlobs(str(tmp_path / "link")),
    )
    kept.prune()
    assert (kept.folder / "orders/checkpoints/000002").exists()
    assert not (kept.folder / "orders/checkpoints/000001").exists()


def test_a_link_in_a_checkpoint_is_not_followed(kept: Kept, tmp_path: Path):
    kept.write(tmp_path / "precious" / "data")
    (kept.folder / "orders/checkpoints/000001/revenue/link").symlink_to(tmp_path / "precious")
    kept.prune()
    assert not (kept.folder / "orders/checkpoints/000001").exists()
    assert (tmp_path / "precious" / "data").exists()


def test_a_link_in_the_place_of_a_checkpoint_stays(kept: Kept, tmp_path: Path):
    kept.write(tmp_path / "precious" / "data")
    (kept.folder / "orders/checkpoints/000000").symlink_to(tmp_path / "precious")
    kept.prune()
    assert (tmp_path / "precious" / "data").exists()


def test_old_driver_logs_of_this_host_go(kept: Kept, tmp_path: Path):
    drivers = tmp_path / "drivers"
    logs = drivers / digest_of(kept.home.store.uri)
    rotated = ("000001.log.1", "000001.log.2.gz", "000002.log-20260301.zst")
    others = ("000001.log.txt", "000007.log.1", "notes.log")
    for name in (*(f"{numbered(number)}.log" for number in (1, 2, 7, 11)), *rotated, *others):
        kept.write(logs / "orders" / name)
        when = NOW.timestamp() - (5 if name == "000002.log" else 50) * 86_400
        os.utime(logs / "orders" / name, (when, when))
    kept.prune(driver_folder=drivers)
    left = sorted(file.name for file in (logs / "orders").iterdir())
    assert left == sorted(["000002.log", "000007.log", "000011.log", *others])


def test_an_epoch_that_cannot_be_read_stays_and_stops_nothing_else(kept: Kept):
    (kept.folder / "orders/epochs/000003.json").write_text("{")
    done = kept.prune()
    assert kept.lane().epoch_numbers() == [2, 3, 7, 9, 10, 11]
    assert (kept.folder / "orders/epochs/000003").is_dir()
    (problem,) = done.problems
    assert "000003.json" in problem


def test_old_changes_of_the_size_go(kept: Kept):
    for number in range(1, SIZES_KEPT + 4):
        path = kept.folder / "orders" / "sizes" / f"{numbered(number)}.json"
        kept.write(path)
        os.utime(path, (NOW.timestamp() - 50 * 86_400,) * 2)
    kept.prune()
    assert kept.lane().size_numbers() == [*range(4, SIZES_KEPT + 4)]


def claim_windows(kept: Kept, count: int, *, base: int | None = None) -> None:
    """Record claims of a series; ``base`` is continued by the newest one, the others are announced."""
    for number in range(1, count + 1):
        claim = WindowClaim(
            series="3600s",
            number=number,
            windows=(),
            state=SeriesState(since=ago(100), until=ago(100) + timedelta(hours=number)),
            base=base if base is not None and number == count else number - 1,
            receipts="",
            receipts_uri="",
            dag_id="",
            run_id="",
            task_id="",
            map_index=-1,
            ti_id="",
            by="kim",
            at=NOW,
        )
        assert kept.lane().claim_windows(claim)
        if number < count:
            kept.lane().end_window_claim(claim, ClaimOutcome.ANNOUNCED, by="kim", now=NOW)


def make_old(folder: Path) -> None:
    for file in folder.rglob("*.json"):
        os.utime(file, (NOW.timestamp() - 50 * 86_400,) * 2)


@pytest.mark.parametrize("base", [None, 4])
def test_old_claims_of_windows_go_with_their_outcomes(kept: Kept, base: int | None):
    claim_windows(kept, CLAIMS_KEPT + 9, base=base)
    make_old(kept.folder / "orders" / "windows")
    kept.prune()
    left = {path.split("/")[-1] for path in kept.files() if path.startswith("orders/windows/")}
    stay = range(base or 10, CLAIMS_KEPT + 10)
    assert left == {f"{numbered(n)}.json" for n in stay} | {
        f"{numbered(n)}.end.json" for n in stay[:-1]
    }
    assert kept.prune().removed == ()


def test_claims_stay_when_the_newest_one_cannot_be_read(kept: Kept):
    claim_windows(kept, CLAIMS_KEPT + 9)
    newest = kept.folder / "orders" / "windows" / "3600s" / f"{numbered(CLAIMS_KEPT + 9)}.json"
    newest.write_text("{")
    make_old(kept.folder / "orders" / "windows")
    done = kept.prune()
    assert RemovalKind.WINDOWS not in {one.what for one in done.removed}
    assert any("windows 3600s of orders stay" in problem for problem in done.problems)


def test_old_timelines_of_late_times_go(kept: Kept):
    for number in range(TIMELINES_KEPT + 3):
        timeline = Timeline(
            number=number,
            complete_within=timedelta(minutes=15),
            query=None,
            since=ago(60),
            until=ago(60) + timedelta(hours=number),
            complete_until=ago(60),
        )
        assert kept.lane().record_timeline(timeline)
    make_old(kept.folder / "orders" / "freshness")
    before = kept.lane().timeline()
    kept.prune()
    left = [path for path in kept.files() if path.startswith("orders/freshness/")]
    assert len(left) == TIMELINES_KEPT
    assert kept.lane().timeline() == before


def test_logs_behind_a_link_stay(kept: Kept, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    file = outside / "000001.log"
    file.write_text("")
    os.utime(file, (ago(90).timestamp(),) * 2)
    logs = tmp_path / "drivers" / digest_of(kept.home.store.uri)
    logs.mkdir(parents=True)
    (logs / "orders").symlink_to(outside)
    kept.prune(driver_folder=tmp_path / "drivers")
    assert file.exists()


def test_a_store_whose_clock_is_behind_makes_nothing_old(kept: Kept):
    when = ago(49).timestamp()

    class Behind(LocalBlobs):
        def put(self, path: str, data: bytes) -> None:
            super().put(path, data)
            os.utime(kept.folder / path, (when, when))

    kept.prune(blobs=Behind(str(kept.folder)))
    # 49 days ago the first deployment had been replaced for a day.
    assert (kept.folder / "orders/checkpoints/000001").exists()


def test_an_unknown_stream_is_refused(kept: Kept):
    with pytest.raises(SpecError):
        prune(kept.home, kept.blobs, "nothing", PrunePolicy(), by="kim")


def test_a_change_that_is_begun_after_the_look_finds_the_checkpoint_whole(kept: Kept):
    class Late(LocalBlobs):
        """Begins a change at the moment in which the removal is recorded."""

        def entries(self, folder: str) -> Any:
            if folder == "orders/checkpoints/000001" and kept.lane().newest_change() is None:
                kept.change(0, ends=None)
            return super().entries(folder)

    kept.prune(blobs=Late(str(kept.folder)))
    assert (kept.folder / "orders/checkpoints/000001/revenue/offsets/0").exists()


def test_a_deployment_that_goes_back_to_an_old_checkpoint_finds_it_whole(kept: Kept):
    before = len(kept.lane().deployment_numbers())

    class Late(LocalBlobs):
        """Deploys to the old checkpoint at the moment in which its files are counted."""

        def entries(self, folder: str) -> Any:
            is_first = len(kept.lane().deployment_numbers()) == before
            if folder == "orders/checkpoints/000001" and is_first:
                kept.deploy(0, place="000001")
            return super().entries(folder)

    kept.prune(blobs=Late(str(kept.folder)))
    assert len(kept.lane().deployment_numbers()) == before + 1
    assert (kept.folder / "orders/checkpoints/000001/revenue/offsets/0").exists()


def test_an_undo_is_refused_when_its_checkpoint_is_being_removed(tmp_path: Path):
    kept = Kept(tmp_path)
    kept.deploy(100)
    kept.deploy(60, place="restored-000001")
    kept.change(60, ends=60, checkpoint=f"{kept.folder}/orders/checkpoints/restored-000001")
    home = kept.lane()
    home.want(DesiredState.STOPPED, by="kim", reason="", now=ago(5))
    home.record_removal(
        Removal(
            number=0,
            stream="orders",
            what=RemovalKind.CHECKPOINT,
            name="000001",
            reason="old",
            by="kim",
            at=NOW,
        )
    )
    with pytest.raises(RestoreRefused):
        undo(home, FakeLauncher(), by="kim")
    assert home.unfinished_change() is None
    assert home.newest_deployment().checkpoint.endswith("restored-000001")  # type: ignore[union-attr]


class Dying(LocalBlobs):
    """A store that fails at the n-th deletion, half of a folder being gone then."""

    def __init__(self, uri: str, left: int) -> None:
        super().__init__(uri)
        self.left = left

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise HomeUnavailable("The disk went away.")

    def delete(self, path: str) -> None:
        self._count()
        super().delete(path)

    def delete_tree(self, folder: str) -> None:
        for path in self._paths(folder):
            self.delete(path)
        self._count()
        super().delete_tree(folder)

    def _paths(self, folder: str) -> Iterator[str]:
        for one in self.entries(folder):
            path = f"{folder}/{one.name}"
            yield from self._paths(path) if one.is_folder else [path]


@pytest.mark.parametrize("deletions", range(36))
def test_a_run_that_died_is_finished_by_the_next(kept: Kept, tmp_path: Path, deletions: int):
    died = kept.prune(blobs=Dying(str(kept.folder), deletions))
    home = kept.lane()
    assert home.newest_epoch().number == 11  # type: ignore[union-attr]
    assert home.newest_deployment().number == 2  # type: ignore[union-attr]
    kept.prune()
    assert home.epoch_numbers() == [7, 9, 10, 11]
    assert sorted(
        file.name for file in (kept.folder / "orders/epochs").iterdir() if file.is_dir()
    ) == [
        "000007",
        "000009",
        "000010",
        "000011",
    ]
    assert not (kept.folder / "orders/checkpoints/000001").exists()
    assert all(home.removal_end(one.number) for one in home.removals())
    assert kept.prune().removed == ()
    assert died.problems or deletions > 30


@pytest.mark.parametrize("seed", range(30))
def test_nothing_needed_is_ever_removed(tmp_path: Path, seed: int):
    """Random histories of both lanes; the records name the needed files in another way."""
    chance = random.Random(seed)
    kept = Kept(tmp_path)
    _history(kept, chance)
    policy = PrunePolicy(
        keep=timedelta(days=chance.choice([7, 14, 30])),
        keep_epochs=chance.choice([3, 5]),
        outputs=chance.random() < 0.5,
    )
    backed_up = frozenset(chance.sample(range(1, 6), chance.randrange(3)))
    needed = _needed(kept, policy, backed_up)
    kept.prune(
        policy=policy,
        backed_up=lambda _: backed_up,
        blobs=Dying(str(kept.folder), chance.choice([1, 3, 9, 10_000])),
    )
    kept.prune(policy=policy, backed_up=lambda _: backed_up)
    assert needed <= kept.files(), needed - kept.files()


def _history(kept: Kept, chance: random.Random) -> None:
    lanes = ["orders"] if chance.random() < 0.4 else ["orders", "orders.green"]
    for lane in lanes:
        days = chance.uniform(20, 120)
        kept.deploy(days, lane=lane)
        while days > 0.5 and chance.random() < 0.95:
            days -= chance.uniform(0, 14)
            if days <= 0:
                break
            kind = chance.random()
            if kind < 0.25:
                number = len(kept.lane(lane).deployment_numbers())
                place = "" if chance.random() < 0.5 else numbered(chance.randint(1, number))
                kept.deploy(days, lane=lane, place=place)
            elif kind < 0.3:
                kept.change(days, ends=max(days - 1, 0), lane=lane)
            else:
                outcome = chance.choice([Outcome.FAILED, Outcome.STOPPED, None])
                number = kept.run(days, lane=lane, outcome=outcome)
                if chance.random() < 0.4:
                    plans = kept.folder / lane / "epochs" / numbered(number) / "plans"
                    kept.write(plans / f"{chance.choice(['a', 'b'])}.json")
        if chance.random() < 0.2:
            kept.change(0.1, ends=None, lane=lane)
        if chance.random() < 0.5:
            kept.lane(lane).want(DesiredState.STOPPED, by="kim", reason="", now=ago(1))
        elif chance.random() < 0.7:
            kept.lane(lane).want(DesiredState.RUNNING, by="kim", reason="", now=ago(1))
        kept.lane(lane).add_event(
            Event(event=EventKind.LAUNCHED, at=ago(days), by="kim", message="")
        )


def _needed(kept: Kept, policy: PrunePolicy, backed_up: frozenset[int]) -> set[str]:
    """Return the files that must stay, by reading records one by one."""
    lanes = [kept.lane(name) for name in kept.home.streams()]
    if any(lane.unfinished_change() for lane in lanes):
        return kept.files()
    files, needed, limit = kept.files(), set(), NOW - policy.keep
    for lane in lanes:
        layout, epochs = Layout(lane.name), lane.epoch_numbers()
        # Records other than epochs are never removed.
        needed |= {
            file
            for file in files
            if file.startswith(f"{lane.name}/")
            and file.split("/")[1] not in ("epochs", "checkpoints", "output")
        }
        stay = set(epochs[-policy.keep_epochs :])
        failed = [n for n in epochs if (end := lane.exit(n)) and end.outcome is Outcome.FAILED]
        stay |= set(failed[-1:])
        stay |= {n for n in epochs if lane.exit(n) is None}
        stay |= {
            n for n, after in itertools.pairwise(epochs) if lane.epoch(after).created_at > limit
        }
        newest = lane.newest_deployment()
        assert newest is not None
        for query in ("a", "b"):
            having = [
                n
                for n in epochs
                if lane.epoch(n).deployment == newest.number
                and f"{layout.epoch(n, 'plans')}/{query}.json" in files
            ]
            stay |= set(having[-1:])
        for number in stay:
            needed.add(layout.place(Epoch, number=number))
            prefix = f"{layout.epoch(number, '')}"
            needed |= {file for file in files if file.startswith(prefix)}
        is_live = lane.name == "orders"
        desired = lane.desired()
        used = (
            {newest.number}
            if is_live or (desired and desired.state is DesiredState.RUNNING)
            else set()
        )
        if epochs and lane.exit(epochs[-1]) is None:
            used.add(newest.number)
        numbers = lane.deployment_numbers()
        used |= {
            n
            for n, after in itertools.pairwise(numbers)
            if lane.deployment(after).created_at > limit
        }
        for number in numbers:
            made = lane.deployment(number)
            if number in used:
                needed |= _under(files, kept, made.checkpoint)
            if number in used or number in backed_up or not policy.outputs:
                needed |= _under(files, kept, made.output)
    return needed


def _under(files: set[str], kept: Kept, uri: str) -> set[str]:
    prefix = f"{Path(uri).relative_to(kept.folder)}/"
    return {file for file in files if file.startswith(prefix)}


@pytest.mark.parametrize(
    ("place", "left"),
    [
        ("orders/epochs/000001", {"epochs/000001.json"}),
        ("orders/events", set()),
        ("stray", {"checkpoints/000001/revenue/metadata"}),
    ],
)
def test_a_link_in_the_home_keeps_what_it_hides_and_nothing_else(
    kept: Kept, tmp_path: Path, place: str, left: set[str]
):
    link, behind = kept.folder / place, tmp_path / "elsewhere"
    behind.mkdir()
    if link.is_dir():
        shutil.rmtree(link)
    link.symlink_to(behind)

    done = kept.prune()

    assert len(done.problems) >= 1
    assert not (kept.folder / "orders/epochs/000002.json").exists()
    assert all((kept.folder / "orders" / file).exists() for file in left)
    assert link.is_symlink()
