"""Campaigns with the real engine of upgrades; drivers and time are played."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_streaming.changes.campaign.upgrades import StreamUpgrades
from airflow_streaming.changes.campaign.worker import CampaignProgress, CampaignWorker
from airflow_streaming.changes.upgrade.begin import UpgradeTermsRequest
from airflow_streaming.changes.upgrade.engine import UpgradeProgress
from airflow_streaming.exceptions import SpecError, UpgradeRefused
from airflow_streaming.home.campaigns import Campaigns
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.records.campaign import (
    BadSoak,
    Campaign,
    CampaignOutcome,
    CampaignTerms,
)
from airflow_streaming.model.records.control import Change, ChangeOutcome
from airflow_streaming.model.records.upgrade_table import Stage, UpgradeCommand
from airflow_streaming.services.campaigns.commands import begin_campaign
from airflow_streaming.services.changes import command_upgrade
from tests.unit.changes.campaign.played import NEW, MemoryStore
from tests.unit.changes.upgrade.upgrading import REWIND, SINKS, SOAK, Upgraded


@dataclass
class RealMember:
    """A member whose stream is called ``orders`` in a home of its own."""

    stream: Upgraded
    refuses: bool = False

    @property
    def home(self) -> StreamHome:
        return self.stream.home

    def begin(self, campaign: Campaign) -> Change:
        if self.refuses:
            raise UpgradeRefused("The gates do not allow it.")
        request = UpgradeTermsRequest(
            rollback=REWIND,
            soak=SOAK,
            sinks=SINKS,
            keeps_by_itself=False,
            key=campaign.request_key,
        )
        stream = self.stream
        return stream.engine().begin(stream.proposed(), stream.new_script, request)

    def advance(self, campaign: Campaign, change: Change) -> UpgradeProgress:
        return self.stream.advance(Stage.KEPT)

    def command(
        self, campaign: Campaign, change: Change, command: UpgradeCommand, reason: str
    ) -> None:
        command_upgrade(self.home, change, command, by="fleet", reason=reason)


@dataclass
class RealFleet:
    members: dict[str, RealMember]
    store: MemoryStore = field(default_factory=MemoryStore)

    def open(self, name: str) -> RealMember:
        if name not in self.members:
            raise SpecError(f"The DAG has no stream {name!r}.")
        return self.members[name]

    def begin(self, *waves: tuple[str, ...], **terms: Any) -> None:
        begin_campaign(
            Campaigns(self.store),
            NEW,
            waves,
            CampaignTerms(**terms),
            selector="",
            follows={},
            by="ada",
            reason="why",
            now=lambda: next(iter(self.members.values())).stream.now,
        )

    def play(self, ticks: int = 80) -> CampaignProgress:
        first = next(iter(self.members.values())).stream
        for _ in range(ticks):
            # A new worker each time: nothing but records is handed over.
            worker = CampaignWorker(
                *(Campaigns(self.store), 1, StreamUpgrades(self.open)),
                by="fleet",
                now=lambda: first.now,
            )
            progress = worker.work()
            if progress.is_there:
                return progress
            for member in self.members.values():
                member.stream.tick()
        raise AssertionError(f"It got no further than {progress.waiting}")


@pytest.fixture
def fleet(tmp_path: Path) -> RealFleet:
    def member(name: str, code: str) -> RealMember:
        folder = tmp_path / name
        folder.mkdir()
        return RealMember(Upgraded(folder, code))

    codes = {"a": "works", "b": "works", "c": "fails after two"}
    return RealFleet({name: member(name, code) for name, code in codes.items()})


def running(fleet: RealFleet) -> list[int | None]:
    return [member.stream.running() for member in fleet.members.values()]


def ends(fleet: RealFleet) -> list[ChangeOutcome | None]:
    found = [member.home.change_end(1) for member in fleet.members.values()]
    return [None if end is None else end.outcome for end in found]


DONE, BACK, GIVEN_UP = ChangeOutcome.DONE, ChangeOutcome.ROLLED_BACK, ChangeOutcome.ABANDONED


def test_streams_are_upgraded_and_the_bad_one_returns(fleet: RealFleet) -> None:
    fleet.begin(("a",), ("b", "c"), at_once=2)

    progress = fleet.play()

    assert progress.state.outcome is CampaignOutcome.STOPPED
    assert list(progress.state.bad) == ["c"]
    assert ends(fleet) == [DONE, DONE, BACK]
    assert running(fleet) == [2, 2, 3]


def test_by_wave_the_good_ones_return_with_the_bad_one(fleet: RealFleet) -> None:
    fleet.begin(("a", "b", "c"), at_once=3, bad_soak=BadSoak.WAVE)

    assert fleet.play().state.outcome is CampaignOutcome.STOPPED
    assert ends(fleet) == [BACK, BACK, BACK]
    assert running(fleet) == [3, 3, 3]


def test_a_wave_of_good_streams_is_kept_together(fleet: RealFleet) -> None:
    del fleet.members["c"]
    fleet.begin(("a", "b"), at_once=2, bad_soak=BadSoak.WAVE, wave_soak=timedelta(minutes=2))

    assert fleet.play().state.outcome is CampaignOutcome.DONE
    assert ends(fleet) == [DONE, DONE]


def test_what_the_gates_refuse_is_left_as_it_is(fleet: RealFleet) -> None:
    fleet.members["b"].refuses = True
    del fleet.members["c"]
    fleet.begin(("a",), ("b", "c"))

    state = fleet.play().state

    assert state.outcome is CampaignOutcome.DONE
    assert [str(state.members[name]) for name in "abc"] == ["kept", "refused", "refused"]
    assert running(fleet) == [2, 1]
    assert not fleet.members["b"].home.changes()
