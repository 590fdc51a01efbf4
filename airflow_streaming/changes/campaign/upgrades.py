"""
The streams of a campaign, with the engine of upgrades in place.

The upgrade of a stream is found by the key of the campaign, so a process that dies after the begin finds it again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from airflow_streaming.changes.campaign.state import MemberProgress, Seen
from airflow_streaming.changes.judging.soak import SoakResult
from airflow_streaming.changes.upgrade.engine import UpgradeProgress
from airflow_streaming.exceptions import (
    CheckpointBusy,
    CheckpointError,
    HomeUnavailable,
    SpecError,
    StreamingError,
    UpgradeRefused,
)
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.campaign import Campaign
from airflow_streaming.model.records.control import Change, ChangeKind, CircuitState
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand

log: Final = logging.getLogger(__name__)
_BACK: Final = frozenset({Stage.ROLLING_BACK, Stage.LEFT, Stage.RESTORED, Stage.ROLLED_BACK})
_UNTOUCHED: Final = frozenset(
    {Stage.BEGUN, Stage.BACKED_UP, Stage.READY, Stage.STOPPED, Stage.ABORTED}
)


class Member(Protocol):
    """A stream of a campaign, and who upgrades it."""

    @property
    def home(self) -> StreamHome:
        """Return the records of its live lane."""

    def begin(self, campaign: Campaign) -> Change:
        """
        Examine the change, and open the upgrade with the campaign's key; only a command keeps it.

        :raises UpgradeRefused: the gates or the stream refuse it; nothing was changed.
        :raises SpecError: it cannot run as written.
        """

    def advance(self, campaign: Campaign, change: Change) -> UpgradeProgress:
        """Take the upgrade to its end, or until it must wait."""

    def command(
        self, campaign: Campaign, change: Change, command: UpgradeCommand, reason: str
    ) -> None:
        """
        Record a command to the upgrade.

        :raises UpgradeRefused: it comes too late, or too early.
        """


class StreamUpgrades:
    """
    Upgrades the streams of a campaign, a few at the same time.

    :param open_member: Opens a stream by its name; raises ``SpecError`` where nothing is known of it.
    :param room: Returns how many more streams the cluster can take.
    """

    def __init__(
        self,
        open_member: Callable[[str], Member],
        *,
        room: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._open, self._room = open_member, room

    def advance(
        self, campaign: Campaign, streams: Collection[str], *, begins: bool
    ) -> Mapping[str, MemberProgress]:
        """
        Begin or continue upgrades; a stream that cannot be observed is left out.

        :param begins: Begin upgrades that are not begun; else they count as refused.
        """
        names = list(streams)
        workers = min(len(names), campaign.terms.at_once)
        with ThreadPoolExecutor(max(1, workers), "campaign") as threads:
            found = threads.map(lambda name: self._advance(campaign, name, begins=begins), names)
            return {name: one for name, one in zip(names, found, strict=True) if one is not None}

    def keep(self, campaign: Campaign, streams: Collection[str], reason: str) -> str:
        """Keep new deployments; return why one of them was not."""
        return self._command(campaign, streams, UpgradeCommand.KEEP, reason)

    def roll_back(self, campaign: Campaign, streams: Collection[str], reason: str) -> str:
        """Put old deployments back; return why one of them was not."""
        return self._command(campaign, streams, UpgradeCommand.ROLL_BACK, reason)

    def troubles(self, streams: Collection[str]) -> Mapping[str, str]:
        """Return why a stream is not well: it gave up since it was kept."""
        found: dict[str, str] = {}
        for name in streams:
            try:
                circuit = self._open(name).home.circuit()
            except StreamingError as err:
                log.warning("Stream %s could not be observed: %s", name, err)
                continue
            if circuit is not None and circuit.state is not CircuitState.CLOSED:
                found[name] = f"Its circuit is open: {circuit.reason}"
        return found

    def room(self) -> int | None:
        """Return how many more streams the cluster can take."""
        return self._room()

    def _advance(self, campaign: Campaign, name: str, *, begins: bool) -> MemberProgress | None:
        change: Change | None = None
        try:
            member = self._open(name)
            change = change_of(member.home, campaign)
            if change is None and not begins:
                return MemberProgress(seen=Seen.REFUSED, reason="Its upgrade was not begun.")
            change = change or member.begin(campaign)
            return member_progress(member.home, change, member.advance(campaign, change))
        except (HomeUnavailable, CheckpointBusy) as err:
            log.warning("Stream %s: %s", name, err)
            return None
        except (UpgradeRefused, SpecError) as err:
            if change is None:
                return MemberProgress(seen=Seen.REFUSED, reason=str(err))
            return _stuck(change, Seen.RUNNING, err)
        except CheckpointError as err:
            if change is None:
                return MemberProgress(seen=Seen.REFUSED, reason=str(err))
            # Only the way back raises it: checkpoint or sinks could not be put back.
            return _stuck(change, Seen.RETURNING, err)
        except StreamingError as err:
            log.warning("Stream %s: %s", name, err)
            return None if change is None else _stuck(change, Seen.RUNNING, err)

    def _command(
        self, campaign: Campaign, streams: Collection[str], command: UpgradeCommand, reason: str
    ) -> str:
        refused = ""
        for name in streams:
            try:
                member = self._open(name)
                change = change_of(member.home, campaign)
                if change is not None:
                    member.command(campaign, change, command, reason)
            except StreamingError as err:
                refused = refused or f"Stream {name!r}: {err}"
        return refused


def change_of(home: StreamHome, campaign: Campaign) -> Change | None:
    """Return the upgrade of a stream that belongs to a campaign, ended or not."""
    for change in reversed(home.changes()):
        if change.at < campaign.at:
            return None
        if change.what is ChangeKind.UPGRADE and home.request_key(change) == campaign.request_key:
            return change
    return None


def member_progress(home: StreamHome, change: Change, progress: UpgradeProgress) -> MemberProgress:
    """Return how far a stream of a campaign has come, by how far its upgrade has."""
    stage, verdict = progress.state, progress.facts.get("verdict", "")
    seen = _seen(stage, verdict, is_there=progress.is_there)
    return MemberProgress(
        seen=seen,
        reason=progress.waiting if seen is Seen.RUNNING and progress.waiting else progress.reason,
        change=change.number,
        is_applied=stage not in _UNTOUCHED,
        needs_person=progress.needs_person,
        is_bad=seen is Seen.KEPT and verdict not in ("", SoakResult.GOOD),
    )


def _seen(stage: Stage, verdict: str, *, is_there: bool) -> Seen:
    if stage in _BACK:
        return Seen.ROLLED_BACK if is_there else Seen.RETURNING
    if stage is Stage.JUDGED and verdict == SoakResult.GOOD:
        return Seen.GOOD
    ends = {Stage.KEPT: Seen.KEPT, Stage.ABORTED: Seen.REFUSED}
    return ends.get(stage, Seen.RUNNING) if is_there else Seen.RUNNING


def _stuck(change: Change, seen: Seen, err: StreamingError) -> MemberProgress:
    return MemberProgress(
        seen=seen, reason=str(err), change=change.number, is_applied=True, needs_person=True
    )
