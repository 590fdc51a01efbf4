"""
The changes of a stream: number, stages, steps and outcome of each.

The terms of an upgrade are written before its change begins, under a name with their digest, which
the change names. So leftovers of a dead or slower task block no other task.

A cutover is recorded in the home of the leading stream's base lane. Every other lane that it
touches has a guest: a change of the same sort that names the leader and keeps other tasks from
changing that lane meanwhile.

A pause is no change: the driver stays, and its record says when it is over.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Self, TypeVar

from airflow_streaming.exceptions import (
    AlreadyExists,
    HomeUnavailable,
    PauseRefused,
    RecordError,
)
from airflow_streaming.home.folder import StreamFolder
from airflow_streaming.model.codec import format_time
from airflow_streaming.model.names import numbered
from airflow_streaming.model.records.change_table import ChangeTable, Transition
from airflow_streaming.model.records.control import (
    BatchPause,
    BatchPauseEnd,
    Change,
    ChangeEnd,
    ChangeKind,
)
from airflow_streaming.model.records.cutover import CheckResult, CutoverTerms
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverTransition
from airflow_streaming.model.records.upgrade import UpgradeTerms
from airflow_streaming.model.records.upgrade_table import UPGRADE, Stage, UpgradeTransition

log: Final = logging.getLogger(__name__)
_LED: Final = re.compile(r"[0-9]{1,12}")
_IN_HAND: Final = frozenset({ChangeKind.UPGRADE, ChangeKind.CUTOVER})
_LOOKED_AT: Final = 50
"""Newest pauses among which a run's is looked for."""


T = TypeVar("T", bound=Transition[Any, Any])
C = TypeVar("C", CutoverTerms, UpgradeTerms)


class Histories(StreamFolder):
    """Read and record the numbered steps of changes, whatever their kind."""

    def history(
        self, cls: type[T], table: ChangeTable[Any, Any], number: int, known: Sequence[T] = ()
    ) -> list[T]:
        """
        Return the history of a change, oldest step first; without gaps.

        :param cls: The record of its kind's steps, and ``table`` its kind's table.
        :param known: Steps that were read before: a step never changes.
        :raises RecordError: a step is missing though a later one exists, or a step does not begin
            in the state in which the previous step ended. If a gap were read as the end, a new step
            would fill it and the later steps would belong to another history.
        """
        history = list(known)
        newest = max(self._numbers_of(cls, change=number), default=0)
        while len(history) < newest:
            # Read whether it is listed or not: a store may list a newer file before an older one.
            step = self._step(cls, number, len(history) + 1, newest)
            history.append(self._following(table, history, step))
        return history

    def take_step(self, step: T) -> T:
        """
        Take the next step; return the step recorded under its number.

        A caller that gets another step back was too late, and looks again.
        """
        return self._put(step)

    def _following(self, table: ChangeTable[Any, Any], history: Sequence[T], step: T) -> T:
        before = table.state_of(history)
        if step.before is not before:
            raise RecordError(
                f"{self._shown(self._place(step))} does not fit this {table.name} of "
                f"{self.name!r}: it begins in {step.before.value!r}, but the previous step "
                f"ended in {before.value!r}. Restore the original file."
            )
        return step

    def _step(self, cls: type[T], change: int, number: int, newest: int) -> T:
        found = self._get(cls, change=change, number=number)
        if found is None:
            path = self._layout.place(cls, change=change, number=number)
            raise RecordError(
                f"Step {number} of change {change} of {self.name!r} is missing, but step "
                f"{newest} exists: {self._shown(path)}. Restore the original file; the change "
                "is blocked until then."
            )
        return found

    def _terms(self, cls: type[C], change: Change, remedy: str) -> C:
        """
        Return the terms of a change.

        :param remedy: The next step if they are missing.
        :raises RecordError: they are missing, or differ from the terms at the change's start.
        """
        of: dict[str, int | str] = {"change": change.number, "digest": change.terms}
        found = self._get(cls, **of)
        if found is None:
            raise RecordError(
                f"{self._shown(self._layout.place(cls, **of))} is missing, so change "
                f"{change.number} of stream {self.name!r} cannot continue. {remedy}"
            )
        return found


class Changes(Histories):
    """Read and record the changes of one stream's checkpoint."""

    def newest_change(self) -> Change | None:
        """Return the newest change, ended or not; ``None`` before the first."""
        return self._newest(Change)

    def changes(self) -> list[Change]:
        """Return all changes, oldest first."""
        return [self.change(number) for number in self._numbers_of(Change)]

    def change(self, number: int) -> Change:
        """
        Return one change.

        :raises RecordError: this number does not exist.
        """
        return self._numbered(Change, number)

    def change_end(self, number: int) -> ChangeEnd | None:
        """Return how a change ended, ``None`` while it has not."""
        return self._get(ChangeEnd, number=number)

    def unfinished_change(self) -> Change | None:
        """Return the change that has not ended; there is never more than one."""
        newest = self.newest_change()
        return None if newest is None or self.change_end(newest.number) else newest

    def next_change(self) -> int:
        return max(self._numbers_of(Change), default=0) + 1

    def begin_change(self, change: Change) -> None:
        """
        Record a change before its first action.

        :raises AlreadyExists: another change was begun first.
        """
        if not self._create(change):
            raise AlreadyExists(self._shown(self._place(change)))

    def end_change(self, end: ChangeEnd) -> ChangeEnd:
        """Record how a change ended; return the end that was recorded first."""
        return self._put(end)

    def open_upgrade(self) -> Change | None:
        """Return the upgrade that has not ended, if the unfinished change is one."""
        found = self.unfinished_change()
        return found if found is not None and found.what is ChangeKind.UPGRADE else None

    def change_in_hand(self) -> Change | None:
        """Return the upgrade or cutover that has not ended: nothing else is deployed meanwhile."""
        found = self.unfinished_change()
        return found if found is not None and found.what in _IN_HAND else None

    def keep_terms(self, terms: UpgradeTerms) -> str:
        """Keep the terms of an upgrade that is about to be begun; return their digest."""
        return self._put(terms).digest

    def terms(self, change: Change) -> UpgradeTerms:
        """
        Return the terms of an upgrade.

        :raises RecordError: they are missing, or differ from the terms at the change's start.
        """
        return self._terms(UpgradeTerms, change, "Put the file back, or abort the upgrade.")

    def request_key(self, change: Change) -> str:
        """Return the key of the request for an upgrade; empty when its terms cannot be read."""
        try:
            return self.terms(change).key
        except RecordError as err:
            log.warning("Who asked for change %d is not known: %s", change.number, err)
            return ""

    def upgrade_steps(self, number: int) -> list[UpgradeTransition]:
        """Return the history of an upgrade; see ``Histories.history``."""
        return self.history(UpgradeTransition, UPGRADE, number)

    def stages(self, number: int) -> dict[Stage, UpgradeTransition]:
        """Return by stage the step with which an upgrade came to it; ``BEGUN`` has none."""
        return {step.after: step for step in self.upgrade_steps(number)}


class Cutovers(Histories):
    """Read and record the cutovers that one stream leads."""

    def keep_cutover_terms(self, terms: CutoverTerms) -> str:
        """Keep the terms of a cutover that is about to be begun; return their digest."""
        return self._put(terms).digest

    def cutover_terms(self, change: Change) -> CutoverTerms:
        """
        Return the terms of a cutover, from the home that leads it.

        :raises RecordError: they are missing, or differ from the terms at the change's start.
        """
        return self._terms(CutoverTerms, change, "Put the file back.")

    def steps(
        self, number: int, known: Sequence[CutoverTransition] = ()
    ) -> list[CutoverTransition]:
        """Return the history of a cutover; see ``Histories.history``."""
        return self.history(CutoverTransition, CUTOVER, number, known)

    def check_results(self, number: int, step: int) -> dict[str, CheckResult]:
        """Return by name what checks have shown in the stay that began with a step."""
        names = self.store.names(self._layout.folder(CheckResult, change=number))
        prefix = f"{numbered(step)}-"
        wanted = [name for name in names if name.startswith(prefix) and name.endswith(".json")]
        found: dict[str, CheckResult] = {}
        for name in wanted:
            check = name.removeprefix(prefix).removesuffix(".json")
            result = self._get(CheckResult, change=number, step=step, name=check)
            if result is not None:
                found[check] = result
        return found

    def record_check(self, result: CheckResult) -> CheckResult:
        """
        Record the result of a check; the first result of a stay counts.

        :raises RecordError: its name cannot be a file name.
        """
        return self._put(result)

    def leader_of(self, change: Change) -> tuple[Self, int]:
        """Return the records of the stream that leads a cutover, and the number it has there."""
        leader, _, number = change.leader.rpartition("/")
        is_guest = bool(leader) and _LED.fullmatch(number) is not None
        return (self.beside(leader), int(number)) if is_guest else (self, change.number)

    def leads(self, change: Change) -> bool:
        return change.what is ChangeKind.CUTOVER and not change.leader


class BatchPauses(StreamFolder):
    """Open and close pauses between batches."""

    def newest_pause(self) -> BatchPause | None:
        """Return the newest pause, open or not."""
        return self._newest(BatchPause)

    def pause_of(self, key: str) -> BatchPause | None:
        """Return the newest pause that a run has opened, open or not."""
        numbers = self._numbers_of(BatchPause)[-_LOOKED_AT:]
        pauses = (self.batch_pause(number) for number in reversed(numbers))
        return next((one for one in pauses if one.key == key), None)

    def batch_pauses(self) -> list[BatchPause]:
        """Return all pauses, oldest first."""
        return [self._numbered(BatchPause, one) for one in self._numbers_of(BatchPause)]

    def batch_pause(self, number: int) -> BatchPause:
        """
        Return one pause.

        :raises RecordError: this number does not exist, or its record is unreadable.
        """
        return self._numbered(BatchPause, number)

    def batch_pause_end(self, number: int) -> BatchPauseEnd | None:
        """Return the record that closed a pause; ``None`` while it is open or was left to its length."""
        return self._get(BatchPauseEnd, number=number)

    def open_pause(self, now: datetime) -> BatchPause | None:
        """Return the pause that is open."""
        newest = self.newest_pause()
        return newest if newest is not None and self._is_open(newest, now) else None

    def begin_pause(self, wanted: BatchPause, now: datetime) -> BatchPause:
        """
        Record a pause under the next number, or return the open pause of the same key.

        :raises PauseRefused: another run or user has opened a pause.
        """

        def change(newest: BatchPause | None, number: int) -> BatchPause | None:
            if newest is None or not self._is_open(newest, now):
                return replace(wanted, number=number)
            if newest.key and newest.key == wanted.key:
                return None
            raise PauseRefused(
                f"Pause {newest.number} of {self.name} is open by {newest.by} until "
                f"{format_time(newest.until)} at the latest. Wait for its end, or close it: "
                f"airflow-streaming pause end {self.name}"
            )

        found = self._append(BatchPause, change)
        if found is None:
            raise HomeUnavailable(f"The pause of {self.name!r} was not recorded.")
        return found

    def end_pause(self, end: BatchPauseEnd) -> bool:
        """Close a pause; tell whether no other task or user was first."""
        return self._create(end)

    def _is_open(self, pause: BatchPause, now: datetime) -> bool:
        return now < pause.until and self.batch_pause_end(pause.number) is None
