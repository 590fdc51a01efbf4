"""
Wake the task of the campaigns when it can act: on a command, on a stream, or when a time has come.

The trigger looks and never acts. It asks the pure decision of upgrades about each stream in flight, so a soak of an
hour starts no worker before its verdict.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from airflow_streaming.changes.campaign.state import CampaignState, MemberState, state_of
from airflow_streaming.changes.campaign.upgrades import change_of
from airflow_streaming.changes.upgrade.acts import look
from airflow_streaming.changes.upgrade.decide import next_move
from airflow_streaming.changes.upgrade.finish import terms_for
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.cached import CachedStream
from airflow_streaming.home.campaigns import Campaigns
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.hooks.launchers import task_launcher
from airflow_streaming.model.observation import VerdictState
from airflow_streaming.model.records.campaign import Campaign, CampaignStep
from airflow_streaming.model.records.control import CircuitState
from airflow_streaming.model.records.upgrade_table import Stage
from airflow_streaming.supervision.observer import Observer
from airflow_streaming.triggers.polling import PollingTrigger

log: Final = logging.getLogger(__name__)
RETRY: Final = 30.0
"""Seconds to the next try of an act that the task could not do, and between two looks at a Spark of its own."""


class CampaignTrigger(PollingTrigger):
    """
    Fires when the task of the campaigns can act, and from time to time.

    :param home: The home's URI.
    :param campaigns: Number of steps that the task has seen, by the number of each campaign.
    :param wake_at: When time alone changes the decision, ISO 8601; ``None`` for never.
    :param wake_seconds: Seconds after which it fires in any case.
    :param home_conn_id: Connection with credentials for the home.
    """

    def __init__(
        self,
        *,
        home: str,
        campaigns: Mapping[str, int],
        deferred_at: str,
        wake_at: str | None = None,
        wake_seconds: float = 600.0,
        home_conn_id: str | None = None,
        poll_seconds: float = 10.0,
        **unknown: Any,  # a row written by a newer release must still load
    ) -> None:
        super().__init__(
            place=home,
            who="the campaigns",
            tag="campaigns",
            deferred_at=deferred_at,
            poll_seconds=poll_seconds,
        )
        self.home, self.home_conn_id = home, home_conn_id
        self.campaigns, self.wake_at, self.wake_seconds = dict(campaigns), wake_at, wake_seconds
        self._started = time.monotonic()
        self._steps: dict[int, list[CampaignStep]] = {}
        self._streams: dict[str, tuple[StreamHome, Observer]] = {}
        self._known: dict[str, str] | None = None
        """Why the task could act at the first look, right after its own."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "home": self.home,
                "campaigns": self.campaigns,
                "deferred_at": self.deferred_at,
                "wake_at": self.wake_at,
                "wake_seconds": self.wake_seconds,
                "home_conn_id": self.home_conn_id,
                "poll_seconds": self.poll_seconds,
            },
        )

    def look_once(self) -> tuple[dict[str, Any] | None, VerdictState | None]:
        waited = time.monotonic() - self._started
        if waited >= self.wake_seconds or self._is_time():
            return {"reason": "A time has come."}, None
        home = self.open_home()
        found: dict[str, str] = {}
        for number, known in self.campaigns.items():
            state, steps = self._state(home, int(number))
            if steps != known:
                return {"reason": f"Campaign {number} has a new step."}, None
            found |= self._acts(home, state)
        if self._known is None:
            self._known = found
        # The task has just tried every act of the first look.
        news = {name: why for name, why in found.items() if self._known.get(name) != why}
        if news or (found and waited >= RETRY):
            name, why = next(iter((news or found).items()))
            return {"reason": f"{name}: {why}"}, None
        return None, None

    def lose_sight(self) -> None:
        for _, observer in self._streams.values():
            observer.lose_sight()

    def damaged(self, reason: str) -> dict[str, Any] | None:
        # The log of a triggerer is rarely read. The task looks itself, and fails with the cause.
        return {"reason": reason}

    def open_home(self) -> Home:
        return StreamHomeHook(self.home, self.home_conn_id, looks_only=True).get_conn()

    def open_stream(self, home: Home, name: str) -> tuple[StreamHome, Observer]:
        """Return the records of a stream's live lane, and their observer."""
        records = CachedStream(home.store, live_lane(home, name))
        return records, Observer(records, task_launcher(records))

    def _is_time(self) -> bool:
        return self.wake_at is not None and datetime.now(UTC) >= datetime.fromisoformat(
            self.wake_at
        )

    def _state(self, home: Home, number: int) -> tuple[CampaignState, int]:
        campaigns = Campaigns(home.store)
        steps = campaigns.steps(number, self._steps.get(number, ()))
        self._steps[number] = steps
        return state_of(campaigns.campaign(number), steps), len(steps)

    def _acts(self, home: Home, state: CampaignState) -> dict[str, str]:
        """Return the possible acts of the task by stream."""
        found = {}
        for name in state.in_flight:
            try:
                found[name] = self._act(home, state.campaign, name)
            except StreamingError as err:
                # The task may have credentials that this look does not have.
                log.warning("Stream %s: %s", name, err)
                found[name] = "cannot be observed"
        if state.passed < state.wave and not state.is_stopping:
            kept = [one for one in state.open_wave if state.members[one] is MemberState.KEPT]
            found |= {name: self._unwell(home, name) for name in kept}
        return {name: why for name, why in found.items() if why}

    def _act(self, home: Home, campaign: Campaign, name: str) -> str:
        records, observer = self._stream(home, name)
        change = change_of(records, campaign)
        if change is None:
            return "not begun"
        if records.change_end(change.number) is not None:
            return "ended"
        view = look(records, observer, change, terms_for(records, change))
        move = next_move(view)
        if view.state is Stage.REPARTITIONING:
            return "repartitioning"  # only the task sees its end
        return "" if move.is_passive else f"{view.state}: {move.do}"

    def _unwell(self, home: Home, name: str) -> str:
        circuit = self._stream(home, name)[0].circuit()
        is_open = circuit is not None and circuit.state is not CircuitState.CLOSED
        return "circuit open" if is_open else ""

    def _stream(self, home: Home, name: str) -> tuple[StreamHome, Observer]:
        if name not in self._streams:
            self._streams[name] = self.open_stream(home, name)
        return self._streams[name]
