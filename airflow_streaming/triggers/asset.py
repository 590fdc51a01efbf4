"""
Announce a stream's progress and state as events of an asset.

It runs as long as a dag is scheduled by the asset, and moves between triggerers, so its last event
is stored with the asset, in Airflow's own store. An event is stored there before it is sent, and as
pending until it must have been delivered: when a triggerer dies in between, the next one sends the
same event again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import Asset
from airflow.sdk.execution_time.context import AssetStateStoreAccessor
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_streaming.exceptions import HomeUnavailable, SpecError
from airflow_streaming.supervision.readiness.subject import EventType
from airflow_streaming.triggers.polling import SubjectTrigger

if TYPE_CHECKING:
    from airflow_streaming.hooks.snapshot import SnapshotReader
    from airflow_streaming.model.observation import VerdictState
    from airflow_streaming.supervision.readiness.asset_events import LastSent, StreamEvent

DELIVERY: Final = 5.0
"""Seconds; a triggerer hands over its events every second."""


class StreamEventTrigger(SubjectTrigger, BaseEventTrigger):
    """
    Announces a stream's progress or state repeatedly.

    :param asset: Name of the asset, with which the last event is kept.
    :param topic: The topic: ``watermark``, ``batch``, ``state`` or ``live``.
    :param every_seconds: See ``supervision.readiness.asset_events.announce``.
    :param query: The query that counts; default: the slowest one.
    """

    def __init__(
        self,
        *,
        asset: str,
        topic: str,
        every_seconds: float,
        query: str | None = None,
        poll_seconds: float = 15.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(poll_seconds=poll_seconds, **kwargs)
        self.asset, self.query = asset, query
        self.topic, self.every_seconds = EventType(topic), every_seconds
        self._looker: SnapshotReader | None = None
        self._told: LastSent | None = None
        self._next: StreamEvent | None = None
        self._delivered_at: float | None = None
        self._silence = ""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        # The row is found again by these, so they are the same at every parse.
        path, kwargs = super().serialize()
        return path, {
            **kwargs,
            "asset": self.asset,
            "topic": self.topic.value,
            "every_seconds": self.every_seconds,
            "query": self.query,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        planned = time.monotonic()
        with self.looking():
            while True:
                await asyncio.sleep(planned - time.monotonic())
                payload = await self._announcement(planned)
                if payload is not None:
                    yield TriggerEvent(payload)
                    self._delivered_at = time.monotonic() + DELIVERY
                pause = self.poll_seconds * random.uniform(0.9, 1.1)  # noqa: S311 - spreads
                planned = max(time.monotonic(), planned + pause)

    def look_once(self) -> tuple[dict[str, Any] | None, VerdictState | None]:
        # Not at dag parse.
        from airflow_streaming.hooks.snapshot import open_looker
        from airflow_streaming.supervision.readiness.asset_events import (
            LastSent,
            announce,
            why_silent,
        )

        try:
            if self._looker is None:
                self._looker = open_looker(self.subject)
        except SpecError as err:
            # A watcher that ends is not reported anywhere; an error in its log can be read.
            raise HomeUnavailable(str(err)) from err
        snapshot = self._looker.snapshot()
        self._next = announce(
            snapshot,
            self._told or LastSent(),
            topic=self.topic,
            every=timedelta(seconds=self.every_seconds),
            query=self.query,
        )
        self._warn(why_silent(snapshot, topic=self.topic, query=self.query))
        payload = None
        if self._next is not None:
            payload = {"stream": self.subject.name, **self._next.payload}
        return payload, snapshot.verdict.state

    def lose_sight(self) -> None:
        if self._looker is not None:
            self._looker.lose_sight()

    def _warn(self, silence: str) -> None:
        if silence and silence != self._silence:
            self.log.warning("Asset %r has no event: %s", self.asset, silence)
        self._silence = silence

    async def _announcement(self, planned: float) -> dict[str, Any] | None:
        try:
            if self._told is None:
                pending = await self._recall()
                if pending is not None:
                    return pending
            await self._settle()
            payload = await self._try_to_look(planned)
            if payload is None or self._next is None:
                return None
            await self._keep(self._next.told, payload)
        except Exception as err:  # noqa: BLE001 - whatever Airflow's trouble is, it passes
            # No event is sent that might be sent again without end.
            self._say(f"The last asset event of {self._who} cannot be read or stored: {err}")
            return None
        self._told = self._next.told
        return payload

    async def _recall(self) -> dict[str, Any] | None:
        """Load the last event; return it if its delivery is uncertain."""
        # Not at dag parse.
        from airflow_streaming.supervision.readiness.asset_events import LastSent

        store = self._store()
        kept: Any = await store.aget(self._key) if store is not None else None
        self._told = LastSent() if kept is None else LastSent.from_dict(kept["told"])
        return None if kept is None else kept["pending"]

    async def _settle(self) -> None:
        delivered_at = self._delivered_at
        if delivered_at is None or self._told is None or time.monotonic() < delivered_at:
            return
        await self._keep(self._told, None)
        self._delivered_at = None

    async def _keep(self, sent: LastSent, pending: dict[str, Any] | None) -> None:
        store = self._store()
        if store is not None:
            await store.aset(self._key, {"told": sent.to_dict(), "pending": pending})

    @property
    def _key(self) -> str:
        return f"streaming.{self.topic}.{self.query}" if self.query else f"streaming.{self.topic}"

    def _store(self) -> AssetStateStoreAccessor | None:
        if self.asset_state_store is None:
            return None
        return self.asset_state_store[Asset.ref(name=self.asset)]
