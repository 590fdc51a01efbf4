"""A fleet whose upgrades are played minute by minute; its records survive each worker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from airflow_streaming.changes.campaign.state import (
    CampaignState,
    MemberProgress,
    QueryAnswer,
    Seen,
    state_of,
)
from airflow_streaming.changes.campaign.worker import CampaignProgress, CampaignWorker
from airflow_streaming.exceptions import AlreadyExists
from airflow_streaming.home.campaigns import Campaigns
from airflow_streaming.model.records.campaign import Campaign, CampaignTerms, FleetChange, WaveQuery
from airflow_streaming.services.campaigns.commands import begin_campaign
from tests.unit.home.make import NOON

MINUTE: Final = timedelta(minutes=1)
NEW: Final = FleetChange(runtime="spark-4.4")
OLD, CANDIDATE, RESTORED = 1, 2, 3
"""Numbers of deployments."""


class MemoryStore:
    """A home in memory."""

    uri = "memory:/home"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.before_create: Callable[[], None] = lambda: None

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def create(self, path: str, data: bytes) -> None:
        self.before_create()
        if path in self.files:
            raise AlreadyExists(path)
        self.files[path] = data

    def replace(self, path: str, data: bytes) -> None:
        self.files[path] = data

    def names(self, folder: str) -> list[str]:
        root = f"{folder}/" if folder else ""
        below = (path[len(root) :] for path in self.files if path.startswith(root))
        return sorted({path.partition("/")[0] for path in below})

    def delete(self, path: str) -> None:
        self.files.pop(path, None)


@dataclass
class PlayedStream:
    """
    A stream with its upgrade.

    :param code: What the candidate does: ``works``, ``bad``, ``late`` (fails after a good soak), ``refused`` (by the
        gates) or ``no backup`` (given up before anything is changed).
    :param soaks: Minutes of its soak.
    """

    code: str = "works"
    soaks: int = 3
    stage: str = "none"
    minutes: int = 0
    deployment: int = OLD
    was_bad: bool = False
    reason: str = ""

    @property
    def is_open(self) -> bool:
        return self.stage in ("begun", "applied", "good", "returning")

    @property
    def is_busy(self) -> bool:
        return self.is_open and self.stage != "good"

    def begin(self) -> None:
        if self.stage == "none":
            self.stage = "refused" if self.code == "refused" else "begun"

    def command_back(self) -> bool:
        """Give the command to roll back; tell whether it was possible."""
        if self.stage == "begun":
            self.stage = "given up"
        elif self.stage in ("applied", "good"):
            self.stage, self.minutes = "returning", 0
        return self.stage != "kept"

    def tick(self) -> None:
        if not self.is_open:
            return
        self.minutes += 1
        if self.stage == "begun" and self.minutes >= 2:
            self.stage = "given up" if self.code == "no backup" else "applied"
            self.deployment = OLD if self.code == "no backup" else CANDIDATE
            self.minutes = 0
        elif self.stage == "applied" and self.minutes >= self.soaks:
            self._judge()
        elif self.stage == "good" and self.code == "late" and self.minutes >= 2:
            self._turn_bad()
        elif self.stage == "returning" and self.minutes >= 2:
            self.stage, self.deployment = "back", RESTORED

    def _judge(self) -> None:
        if self.code == "bad":
            self._turn_bad()
        else:
            self.stage, self.minutes = "good", 0

    def _turn_bad(self) -> None:
        self.stage, self.minutes, self.was_bad = "returning", 0, True

    def seen(self) -> MemberProgress:
        seen = {
            "begun": Seen.RUNNING,
            "applied": Seen.RUNNING,
            "good": Seen.GOOD,
            "kept": Seen.KEPT,
            "returning": Seen.RETURNING,
            "back": Seen.ROLLED_BACK,
        }
        is_applied = self.stage not in ("none", "begun", "given up", "refused")
        return MemberProgress(
            seen=seen.get(self.stage, Seen.REFUSED),
            reason=f"It is {self.stage}.",
            change=1,
            is_applied=is_applied,
        )


@dataclass
class PlayedFleet:
    """
    The streams of a campaign, and the home in which it is recorded.

    :param free: How many more streams the cluster can take.
    :param before: Called before each act; a test dies there.
    """

    streams: dict[str, PlayedStream]
    store: MemoryStore = field(default_factory=MemoryStore)
    now: datetime = NOON
    free: int | None = None
    sick: dict[str, str] = field(default_factory=dict)
    before: Callable[[], None] = lambda: None
    most_busy: int = 0
    judge: Callable[[Sequence[WaveQuery]], Sequence[QueryAnswer]] = lambda _: ()

    @property
    def campaigns(self) -> Campaigns:
        return Campaigns(self.store)

    def begin(
        self,
        *waves: Collection[str],
        follows: Mapping[str, tuple[str, ...]] | None = None,
        key: str = "",
        **terms: object,
    ) -> CampaignState:
        return begin_campaign(
            self.campaigns,
            NEW,
            tuple(map(tuple, waves)),
            CampaignTerms(**terms),  # type: ignore[arg-type]
            selector="team=payments",
            follows=follows or {},
            by="ada",
            reason="Spark 4.4 by Friday",
            key=key,
            now=lambda: self.now,
        )

    def work(self, number: int = 1) -> CampaignProgress:
        return self.worker(number).work()

    def worker(self, number: int = 1) -> CampaignWorker:
        return CampaignWorker(
            self.campaigns, number, self, by="fleet", now=lambda: self.now, judge=self.judge
        )

    def state(self, number: int = 1) -> CampaignState:
        return state_of(self.campaigns.campaign(number), self.campaigns.steps(number))

    def tick(self, minutes: int = 1) -> None:
        for _ in range(minutes):
            self.now += MINUTE
            for stream in self.streams.values():
                stream.tick()

    def play(self, minutes: int = 200, number: int = 1) -> CampaignProgress:
        """Work and let time pass until the campaign is closed or waits for a user."""
        for _ in range(minutes):
            progress = self.work(number)
            if progress.is_there or progress.needs_person:
                return progress
            self.tick()
        raise AssertionError(f"It got no further than {progress.waiting}")

    # The port of the worker.

    def advance(
        self, campaign: Campaign, streams: Collection[str], *, begins: bool
    ) -> Mapping[str, MemberProgress]:
        for name in streams:
            if self.streams[name].stage == "none" and begins:
                self.before()
                self.streams[name].begin()
        # A stream that fails after its good soak returns at once, whatever the limit.
        busy = sum(one.is_busy and one.code != "late" for one in self.streams.values())
        self.most_busy = max(self.most_busy, busy)
        return {name: self.streams[name].seen() for name in streams}

    def keep(self, campaign: Campaign, streams: Collection[str], reason: str) -> str:
        for name in streams:
            self.before()
            if self.streams[name].stage == "good":
                self.streams[name].stage = "kept"
        return ""

    def roll_back(self, campaign: Campaign, streams: Collection[str], reason: str) -> str:
        late = []
        for name in streams:
            self.before()
            late += [] if self.streams[name].command_back() else [name]
        return f"{late[0]} is kept already." if late else ""

    def troubles(self, streams: Collection[str]) -> Mapping[str, str]:
        return {name: why for name, why in self.sick.items() if name in streams}

    def room(self) -> int | None:
        if self.free is None:
            return None
        return self.free - sum(one.is_busy for one in self.streams.values())


def fleet_of(*names: str, **codes: str) -> PlayedFleet:
    """Return a fleet; ``codes`` say what candidates do that do not work."""
    return PlayedFleet({name: PlayedStream(codes.get(name, "works")) for name in names})
