"""The acts whose every durable write is made to fail, and what has to be there in the end."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from airflow_streaming.checkpoints.restore.restore import Place, restore
from airflow_streaming.checkpoints.vault.deletion import delete_named
from airflow_streaming.checkpoints.vault.retention import apply_retention
from airflow_streaming.checkpoints.vault.verify import verify
from airflow_streaming.exceptions import BackupNotFound, HomeUnavailable
from airflow_streaming.home.home import open_home
from airflow_streaming.launch.local import LocalLauncher
from airflow_streaming.model.arguments.choices import Level
from airflow_streaming.model.arguments.keeping import PrunePolicy, RetentionPolicy
from airflow_streaming.model.arguments.policies import RestartPolicy
from airflow_streaming.model.names import other_lane
from airflow_streaming.model.records.control import ChangeOutcome
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.records.epoch import Outcome
from airflow_streaming.model.records.owner import Actor
from airflow_streaming.model.uris import digest_of
from airflow_streaming.services.streams import declare_dead, hand_over, start, stop
from airflow_streaming.storage.probe import ensure_exclusive
from tests.fakes import FakeLauncher
from tests.unit.changes.cutover import cut_short
from tests.unit.changes.cutover.cutting import Cutting
from tests.unit.changes.cutover.cutting import outcome as cutover_outcome
from tests.unit.changes.pruning.old import old_stream
from tests.unit.changes.upgrade import killing
from tests.unit.changes.upgrade.upgrading import Upgraded, end_of
from tests.unit.changes.upgrade.upgrading import outcome as upgrade_outcome
from tests.unit.checkpoints.restoring import back_up, is_sound_at, new_store, run_batches
from tests.unit.faults.disk import FaultyDisk
from tests.unit.faults.driving import Driven
from tests.unit.home.make import NOON, SCRIPT, make_deployment, make_epoch
from tests.unit.launch.restored_stream import Stream
from tests.unit.world import make_world

SECRET: Final = {"spark.hadoop.fs.s3a.secret.key": "canary-4711"}
MOST_TRIES: Final = 8
AT_ONCE: Final = RestartPolicy(first_delay=timedelta(microseconds=1))


class Act(Protocol):
    """
    Something that an engineer, a task or a driver does, in a place of its own.

    Made on a sound disk; ``folder`` is all that it may change.
    """

    def live_on(self, disk: FaultyDisk) -> None:
        """Tell the disk what is not done by the process that may be killed."""

    def do(self) -> None:
        """Do it, or go on with what was begun."""

    def drivers(self) -> int:
        """Return the number of living drivers of the one stream, or the most in a lane."""

    def outcome(self) -> Any:
        """Return all that has to be the same in the end."""


class Launched:
    """A first launch: deployment, epoch, private files, driver, launch record."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.world = make_world(folder, patch)
        folders = LocalLauncher(folder=folder / "drivers" / digest_of(self.world.uri))
        self.world.launcher.clean_up = folders.clean_up  # type: ignore[method-assign]
        # Half a minute after a launch was begun, its driver is not waited for any more.
        patch.setattr("airflow_streaming.supervision.health.SPAWN_GRACE", timedelta(0))
        # The probe of a new home races in threads: its writes have no order.
        ensure_exclusive(self.world.home.store, creators=2, rounds=1)

    def live_on(self, disk: FaultyDisk) -> None:
        launcher: Any = self.world.launcher
        launcher.launch = disk.counting("launch", launcher.launch)

    def do(self) -> None:
        for _ in range(MOST_TRIES):
            trigger = self._run()
            if self.world.launcher.living():
                return
            self.world.wake(trigger, self._operator())

    def drivers(self) -> int:
        return len(self.world.launcher.living())

    def outcome(self) -> Any:
        world = self.world
        newest = world.epoch()
        launch = world.home.launch(newest.number)
        return (
            world.launcher.living() == [newest.number],
            launch is not None and launch.token == newest.token,
            newest.deployment,
        )

    def secrets_left(self) -> int:
        """Return the number of files with a secret, but for that of a living driver."""
        files = (path for path in self.world.folder.rglob("*") if path.is_file())
        found = [path for path in files if b"canary-4711" in path.read_bytes()]
        return len(found) - self.drivers()

    def _run(self) -> Any:
        return self.world.run(self._operator())

    def _operator(self) -> Any:
        return self.world.operator(conf=SECRET, restart=AT_ONCE)


class Relaunched(Launched):
    """A driver that crashed: its death, the restart decision, its successor."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, patch)
        super().do()
        self.world.say(progressed_for=timedelta(minutes=5))
        self.world.crash()


class StoppedByCommand(Launched):
    """A stop by the command line, and what the keep-alive task makes of the driver's end."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, patch)
        super().do()
        self._ends: Callable[[], None] = self._end

    def live_on(self, disk: FaultyDisk) -> None:
        super().live_on(disk)
        self._ends = disk.resting(self._end)

    def do(self) -> None:
        stop(self.world.home, by="kim", reason="The test stops it.")
        self._ends()
        for _ in range(3):
            trigger = self._run()
            self.world.wake(trigger, self._operator())

    def outcome(self) -> Any:
        home, epoch = self.world.home, self.world.epoch().number
        desired, request = home.desired(), home.stop_request(epoch)
        return (
            desired is not None and desired.state,
            desired is not None and desired.number,
            request is not None and request.by,
            self.drivers(),
            epoch,
            home.aftermath(epoch).exit is not None,
        )

    def _end(self) -> None:
        epoch = self.world.epoch().number
        if self.drivers() and self.world.home.stop_request(epoch) is not None:
            self.world.last_words(Outcome.STOPPED)
            # A driver that stops has read its private files, and deleted them.
            self.world.launcher.clean_up(self.world.epoch())


class OfAStore:
    """Acts on a store with two backups of one checkpoint, which has gone on since."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.checkpoint = run_batches(folder / "ck", 2)
        self.store = new_store(folder)
        self.first = back_up(self.store, self.checkpoint)
        run_batches(self.checkpoint, 3)
        self.second = back_up(self.store, self.checkpoint)
        run_batches(self.checkpoint, 5)

    def live_on(self, disk: FaultyDisk) -> None:
        pass

    def drivers(self) -> int:
        return 0

    def whole(self) -> list[int]:
        """Return the batches of the backups that hold, read in full; the others fail this."""
        listed = self.store.listed("orders")
        assert all(one.backup is not None for one in listed), "A manifest is damaged."
        for one in listed:
            found = verify(self.store, one.id, Level.FULL, by="test", now=datetime.now(UTC))
            assert found.holds, found.problems
        return sorted(one.backup.queries[0].batch for one in listed if one.backup is not None)


class BackedUp(OfAStore):
    """A third backup."""

    def do(self) -> None:
        if self._batches()[-1] != 5:
            back_up(self.store, self.checkpoint)

    def outcome(self) -> Any:
        return self.whole(), is_sound_at(self.checkpoint, 5)

    def _batches(self) -> list[int]:
        return [backup.queries[0].batch for backup in self.store.backups("orders")]


class Verified(OfAStore):
    """A full verification of a backup, recorded."""

    def do(self) -> None:
        found = verify(self.store, self.first.id, Level.FULL, by="kim", now=datetime.now(UTC))
        assert found.holds

    def outcome(self) -> Any:
        said = self.store.verifications(self.first.id, "orders")
        return bool(said) and all(one.holds for one in said), self.whole()


class RestoredElsewhere(OfAStore):
    """A backup restored to a new place."""

    def do(self) -> None:
        if not (self.folder / "new/metadata").exists():
            restore(self.store, self.first.id, Place(to=str(self.folder / "new")))

    def outcome(self) -> Any:
        return is_sound_at(self.folder / "new", 2), is_sound_at(self.checkpoint, 5), self.whole()


class Retained(OfAStore):
    """Retention, run after run until nothing is left to do."""

    def do(self) -> None:
        for _ in range(3):
            policy = RetentionPolicy(keep_last=1)
            apply_retention(self.store, "orders", policy, by="kim", grace=timedelta(0))

    def outcome(self) -> Any:
        (left,) = self.store.backups("orders")
        objects = {stored.path for stored in self.store.objects("orders")}
        return self.whole(), objects == set(self.store.needed(left))


class Deleted(OfAStore):
    """A backup deleted by its name; its objects go with retention."""

    def do(self) -> None:
        with contextlib.suppress(BackupNotFound):
            delete_named(self.store, self.first.id, by="kim", reason="The test.", dry_run=False)
        apply_retention(
            self.store, "orders", RetentionPolicy(keep_last=1), by="kim", grace=timedelta(0)
        )

    def outcome(self) -> Any:
        return self.whole(), is_sound_at(self.checkpoint, 5)


class Pruning:
    """The removal of old epochs, of a checkpoint that no deployment needs, and of its output."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.kept = old_stream(folder)

    def live_on(self, disk: FaultyDisk) -> None:
        pass

    def do(self) -> None:
        for _ in range(2):
            done = self.kept.prune(policy=PrunePolicy(keep_epochs=3, outputs=True))
        if done.problems:
            raise HomeUnavailable(" ".join(done.problems))

    def drivers(self) -> int:
        return 0

    def outcome(self) -> Any:
        # A record of the mark that was made twice, or of the event that was not, is no harm.
        return sorted(
            file
            for file in self.kept.files()
            if not re.match(r"orders/(removals|events)/|.*\.tmp$", file)
        )


class Ordered:
    """What is ordered by the command line: a stream handed over, its driver declared dead."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.home = open_home(str(folder / "home")).stream("orders")
        self.home.create_deployment(make_deployment(1), SCRIPT)
        self.home.create_epoch(make_epoch(1))
        self.home.claim_ownership(Actor(dag_id="orders"), by="a task", now=NOON)
        self.home.open_circuit(epoch=1, reason="It failed too often.", by="a task", now=NOON)

    def live_on(self, disk: FaultyDisk) -> None:
        pass

    def do(self) -> None:
        hand_over(self.home, "orders_v2", by="kim", reason="It was renamed.")
        if self.home.aftermath(1).death is None:
            declare_dead(self.home, FakeLauncher().probe, 1, by="kim", reason="It burnt.")
        start(self.home, by="kim", reason="The test.")

    def drivers(self) -> int:
        return 0

    def outcome(self) -> Any:
        owner, circuit, desired = self.home.owner(), self.home.circuit(), self.home.desired()
        return (
            owner is not None and owner.dag_id,
            self.home.aftermath(1).death is not None,
            circuit is not None and circuit.holds(1),
            desired is not None and desired.state,
        )


class SwitchedOver:
    """A stream restored to a backup: the change, its files, the new deployment."""

    undone = False

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.stream = Stream(folder)
        if self.undone:
            self.stream.switch()
        self.before = self.stream.checkpoint

    def live_on(self, disk: FaultyDisk) -> None:
        pass

    def do(self) -> None:
        is_made = self.stream.checkpoint != self.before
        if not is_made or self.stream.home.unfinished_change() is not None:
            (self.stream.undo if self.undone else self.stream.switch)()

    def drivers(self) -> int:
        return len(self.stream.launcher.living())

    def outcome(self) -> Any:
        return (
            self.stream.is_at(3 if self.undone else 1),
            self.stream.home.unfinished_change(),
            len(self.stream.home.changes()),
        )


class SwitchedBack(SwitchedOver):
    """The undo of a restore."""

    undone = True


class UpgradedInPlace:
    """An upgrade that is kept."""

    code = "works"
    story: Any = staticmethod(killing.to_the_end)

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.stream = Upgraded(folder, self.code)

    def live_on(self, disk: FaultyDisk) -> None:
        stream, launcher = self.stream, self.stream.launcher
        stream.tick = disk.resting(stream.tick)  # type: ignore[method-assign]
        launcher.launch = disk.counting("launch", launcher.launch)  # type: ignore[method-assign]
        launcher.kill = disk.counting("kill", launcher.kill)  # type: ignore[method-assign]

    def do(self) -> None:
        self.stream.tick()
        self.story(self.stream, self.stream.home)
        self.stream.tick()

    def drivers(self) -> int:
        return len(self.stream.launcher.living())

    def outcome(self) -> Any:
        return upgrade_outcome(self.stream), killing.rows(self.stream), self.drivers()

    def may_end(self) -> bool:
        """Tell whether it was given up in good order: what ran before runs again, and is whole."""
        end = end_of(self.stream)
        return (
            end is not None
            and end.outcome is ChangeOutcome.ABANDONED
            and self.stream.running() == 1
            and killing.rows(self.stream) == "whole"
        )


class RolledBack(UpgradedInPlace):
    """An upgrade whose code fails after two batches: back to the backup."""

    code = "fails after two"


class Aborted(UpgradedInPlace):
    """An upgrade that is aborted once the old driver is gone."""

    story = staticmethod(killing.aborted)


class CutOver:
    """A cutover in parallel, to its end."""

    way = "parallel"
    story: Any = staticmethod(cut_short.to_the_end)

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.world = Cutting(folder, **cut_short.WAYS[self.way])

    def live_on(self, disk: FaultyDisk) -> None:
        world: Any = self.world
        world.tick = disk.resting(world.tick)
        world.pause = disk.resting(world.pause)
        world.checkpoints.step = disk.counting("checkpoint", lambda: None)
        for lane in ("orders", other_lane("orders")):
            launcher: Any = world.lane(lane).launcher
            launcher.launch = disk.counting("launch", launcher.launch)
            launcher.kill = disk.counting("kill", launcher.kill)

    def do(self) -> None:
        self.world.tick()
        self.story(self.world, None)
        for _ in range(3):
            self.world.tick()

    def drivers(self) -> int:
        return max(len(lane.launcher.living()) for lane in self.world.lanes.values())

    def outcome(self) -> Any:
        return cutover_outcome(self.world), cut_short.never_backwards(self.world.read)

    def may_end(self) -> bool:
        """Tell whether it was given up in good order: blue runs, and consumers read it whole."""
        world = self.world
        end = world.home("orders").change_end(world.change)
        return (
            end is not None
            and end.outcome in (ChangeOutcome.ABANDONED, ChangeOutcome.ROLLED_BACK)
            and world.running(world.live_lane()) is not None
            and not world.faults()
            and cut_short.never_backwards(world.read)
        )


class HandedOver(CutOver):
    """A cutover by handover of the state."""

    way = "handover"


class HandedBack(HandedOver):
    """A cutover that goes back while it soaks."""

    story = staticmethod(cut_short.rolled_back_at(CutoverState.SOAKING))


class HandedBackInParallel(CutOver):
    """A cutover in parallel that goes back while it soaks."""

    story = staticmethod(cut_short.rolled_back_at(CutoverState.SOAKING))


class CutoverAborted(CutOver):
    """A cutover in parallel that is aborted when it is ready."""

    story = staticmethod(cut_short.aborted_at(CutoverState.READY))


class HandoverAborted(HandedOver):
    """A cutover by handover that is aborted while green warms up."""

    story = staticmethod(cut_short.aborted_at(CutoverState.WARMING))


class CarriedOver(CutOver):
    """A cutover of a stream without state."""

    way = "carried"


ACTS: Final[dict[str, Any]] = {
    "driver": Driven,
    "launch": Launched,
    "relaunch": Relaunched,
    "stop": StoppedByCommand,
    "backup": BackedUp,
    "verify": Verified,
    "restore": RestoredElsewhere,
    "retention": Retained,
    "delete": Deleted,
    "prune": Pruning,
    "order": Ordered,
    "switch": SwitchedOver,
    "undo": SwitchedBack,
    "upgrade": UpgradedInPlace,
    "rollback": RolledBack,
    "abort": Aborted,
    "cutover": CutOver,
    "cutover-back": HandedBackInParallel,
    "cutover-abort": CutoverAborted,
    "handover": HandedOver,
    "handback": HandedBack,
    "handover-abort": HandoverAborted,
    "carried": CarriedOver,
}
