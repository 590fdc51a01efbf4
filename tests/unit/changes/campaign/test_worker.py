"""Campaigns from begin to end, with played streams; killed, overtaken and commanded on the way."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_streaming.changes.campaign.state import MemberState, QueryAnswer, QueryResult
from airflow_streaming.exceptions import CampaignRefused, RecordError
from airflow_streaming.model.arguments.policies import Blackout
from airflow_streaming.model.records.campaign import (
    ApproveWaves,
    BadSoak,
    Bound,
    CampaignEvent,
    CampaignOutcome,
    WaveQuery,
)
from airflow_streaming.services.campaigns import commands as acts
from tests.unit.changes.campaign.played import CANDIDATE, OLD, RESTORED, PlayedFleet, fleet_of
from tests.unit.checkpoints.restoring import Killed, Life

M = MemberState
WAVES = (("a",), ("b", "c"), ("d", "e", "f"))
NAMES = tuple(name for wave in WAVES for name in wave)
ADA = {"by": "ada", "reason": "why"}


def deployments(fleet: PlayedFleet) -> str:
    return "".join(str(one.deployment) for one in fleet.streams.values())


def test_a_good_change_reaches_all_streams_in_waves() -> None:
    fleet = fleet_of(*NAMES)
    fleet.begin(*WAVES, at_once=2)

    progress = fleet.play()

    assert progress.state.outcome is CampaignOutcome.DONE
    assert deployments(fleet) == "222222"
    assert fleet.most_busy == 2
    opened = [step for step in fleet.campaigns.steps(1) if step.event is CampaignEvent.WAVE_OPENED]
    assert [step.wave for step in opened] == [1, 2, 3]


@pytest.mark.parametrize(
    ("bad", "policy", "wanted"),
    [
        ("a", BadSoak.STREAM, "311111"),
        ("b", BadSoak.STREAM, "232111"),
        ("c", BadSoak.STREAM, "223111"),
        ("c", BadSoak.WAVE, "233111"),
        ("d", BadSoak.STREAM, "222322"),
    ],
)
def test_a_bad_stream_stops_the_campaign(bad: str, policy: BadSoak, wanted: str) -> None:
    fleet = fleet_of(*NAMES, **{bad: "bad"})
    fleet.begin(*WAVES, at_once=3, bad_soak=policy)

    progress = fleet.play()

    assert progress.state.outcome is CampaignOutcome.STOPPED
    assert deployments(fleet) == wanted
    assert list(progress.state.bad) == [bad]


def test_a_stream_that_fails_while_its_wave_is_judged_takes_the_wave_with_it() -> None:
    fleet = fleet_of(*NAMES, b="late")
    fleet.streams["c"].soaks = 10
    fleet.begin(*WAVES, at_once=2, bad_soak=BadSoak.WAVE)

    assert fleet.play().state.outcome is CampaignOutcome.STOPPED
    assert deployments(fleet) == "233111"


SLO = WaveQuery(name="slo", url="http://prometheus/x", success=Bound(">=", 0.99))


def judged(*results: QueryResult) -> Any:
    """Return a judge that gives these answers, the last one for ever."""
    left = list(results)
    return lambda _: [QueryAnswer("slo", left.pop(0) if len(left) > 1 else left[0], "It is 0.9.")]


@pytest.mark.parametrize(
    ("policy", "wanted"), [(BadSoak.STREAM, "222111"), (BadSoak.WAVE, "233111")]
)
def test_a_failed_query_stops_the_campaign(policy: BadSoak, wanted: str) -> None:
    fleet = fleet_of(*NAMES)
    fleet.judge = judged(QueryResult.SUCCESS, QueryResult.FAILURE)
    fleet.begin(*WAVES, at_once=2, bad_soak=policy, queries=(SLO,))

    state = fleet.play().state

    assert state.outcome is CampaignOutcome.STOPPED
    assert deployments(fleet) == wanted
    assert state.bad["b"] == "Wave 2: It is 0.9."


def test_a_good_answer_passes_each_wave_and_is_recorded() -> None:
    fleet = fleet_of(*NAMES)
    fleet.judge = judged(QueryResult.INCONCLUSIVE, QueryResult.INCONCLUSIVE, QueryResult.SUCCESS)
    fleet.begin(*WAVES, queries=(SLO,))

    assert fleet.play().state.outcome is CampaignOutcome.DONE
    assert deployments(fleet) == "222222"
    passed = [s for s in fleet.campaigns.steps(1) if s.event is CampaignEvent.WAVE_PASSED]
    assert [step.facts for step in passed] == [{"slo": "It is 0.9."}] * 3


def test_an_inconclusive_query_asks_a_user_before_the_next_wave() -> None:
    fleet = fleet_of(*NAMES)
    fleet.judge = judged(QueryResult.INCONCLUSIVE)
    fleet.begin(*WAVES, queries=(SLO,))

    progress = fleet.play()
    assert progress.needs_person
    assert (progress.state.passed, deployments(fleet)) == (1, "211111")

    acts.approve(fleet.campaigns, 1, **ADA)
    progress = fleet.play()
    assert (progress.state.passed, deployments(fleet)) == (2, "222111")


def test_queries_are_asked_only_when_a_wave_has_settled() -> None:
    fleet, asked = fleet_of(*NAMES), list[int]()

    def judge(_: Any) -> Any:
        asked.append(fleet.state().wave)
        return judged(QueryResult.SUCCESS)(_)

    fleet.judge = judge
    fleet.begin(*WAVES, queries=(SLO,), wave_soak=timedelta(minutes=3))
    fleet.play()

    assert asked == [1, 2, 3]


def test_refused_streams_are_left_and_named() -> None:
    fleet = fleet_of(*NAMES, b="refused", e="no backup")
    fleet.begin(*WAVES)

    state = fleet.play().state

    assert state.outcome is CampaignOutcome.DONE
    assert state.streams_in(M.REFUSED) == ["b", "e"]
    assert deployments(fleet) == "212212"


@pytest.mark.parametrize("death", range(1, 40))
def test_a_kill_before_any_durable_step_continues(death: int) -> None:
    fleet = fleet_of(*NAMES, c="bad")
    fleet.begin(*WAVES, at_once=2)
    life = Life(death)
    fleet.before = fleet.store.before_create = life.step
    with contextlib.suppress(Killed):
        fleet.play()
    fleet.before = fleet.store.before_create = lambda: None

    assert fleet.play().state.outcome is CampaignOutcome.STOPPED
    assert deployments(fleet) == "223111"
    events = Counter(step.event for step in fleet.campaigns.steps(1))
    assert events[CampaignEvent.WAVE_OPENED] == 2
    assert events[CampaignEvent.CLOSED] == 1


@pytest.mark.parametrize("step", range(1, 25))
def test_a_worker_that_is_overtaken_before_a_step_does_no_harm(step: int) -> None:
    fleet = fleet_of(*NAMES, c="bad")
    fleet.begin(*WAVES, at_once=2)
    life = Life()

    def overtaken() -> None:
        life.step()
        if life.steps == step:
            fleet.tick(3)
            fleet.work()

    fleet.store.before_create = overtaken

    assert fleet.play().state.outcome is CampaignOutcome.STOPPED
    assert deployments(fleet) in ("223111", "233111")
    numbers = [one.number for one in fleet.campaigns.steps(1)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_no_stream_is_admitted_in_a_blackout() -> None:
    fleet = fleet_of(*NAMES)
    lunch = Blackout(start="12:00", end="12:30")
    fleet.begin(*WAVES, blackouts=(lunch,))

    assert "blackout until 2026-03-01 12:30 UTC" in fleet.work().waiting
    fleet.tick(29)
    assert not fleet.work().state.in_flight
    fleet.tick(1)
    assert fleet.work().state.in_flight == ["a"]


def test_a_full_cluster_takes_no_stream() -> None:
    fleet = fleet_of(*NAMES)
    fleet.free = 0
    fleet.begin(*WAVES, at_once=3)

    assert "no room" in fleet.work().waiting
    fleet.free = 1
    assert fleet.play().state.outcome is CampaignOutcome.DONE
    assert fleet.most_busy == 1


def test_a_paused_campaign_finishes_what_it_has_begun() -> None:
    fleet = fleet_of(*NAMES)
    fleet.begin(*WAVES)
    fleet.work()
    acts.pause(fleet.campaigns, 1, **ADA)

    assert fleet.play().needs_person
    assert deployments(fleet) == "211111"
    acts.resume(fleet.campaigns, 1, **ADA)
    assert fleet.play().state.outcome is CampaignOutcome.DONE


def test_an_aborted_campaign_puts_back_what_is_not_kept() -> None:
    fleet = fleet_of(*NAMES)
    fleet.begin(*WAVES, at_once=2)
    while deployments(fleet) != "222111":
        fleet.work()
        fleet.tick()
    acts.abort(fleet.campaigns, 1, **ADA)

    assert fleet.play().state.outcome is CampaignOutcome.ABORTED
    assert deployments(fleet) == "233111"
    with pytest.raises(CampaignRefused, match=r"closed \(aborted\)"):
        acts.pause(fleet.campaigns, 1, **ADA)


def test_an_upgrade_that_was_not_begun_before_the_abort_is_not_begun(monkeypatch: Any) -> None:
    fleet = fleet_of(*NAMES)
    fleet.begin(*WAVES)
    with monkeypatch.context() as patch:
        patch.setattr(fleet, "before", Life(1).step)
        with pytest.raises(Killed):
            fleet.work()
    assert fleet.state().in_flight == ["a"]
    acts.abort(fleet.campaigns, 1, **ADA)

    assert fleet.play().state.outcome is CampaignOutcome.ABORTED
    assert fleet.streams["a"].stage == "none"


def test_a_wave_waits_for_its_approval() -> None:
    fleet = fleet_of(*NAMES)
    fleet.begin(*WAVES, approve=ApproveWaves.EACH)
    with pytest.raises(CampaignRefused, match="no wave to approve"):
        acts.approve(fleet.campaigns, 1, **ADA)

    for wanted in ("211111", "222111"):
        assert "waits for an approval" in fleet.play().waiting
        assert deployments(fleet) == wanted
        acts.approve(fleet.campaigns, 1, **ADA)
    assert fleet.play().state.outcome is CampaignOutcome.DONE


def test_a_stream_can_be_taken_out_before_and_in_its_upgrade() -> None:
    fleet = fleet_of(*NAMES, a="bad")
    fleet.begin(*WAVES)
    fleet.work()
    acts.take_out(fleet.campaigns, 1, "a", **ADA)
    acts.take_out(fleet.campaigns, 1, "f", **ADA)
    with pytest.raises(CampaignRefused, match="no stream 'z'"):
        acts.take_out(fleet.campaigns, 1, "z", **ADA)

    assert "No stream was kept" in fleet.play().waiting
    acts.approve(fleet.campaigns, 1, **ADA)
    assert fleet.play().state.outcome is CampaignOutcome.DONE
    assert deployments(fleet) == f"{RESTORED}2222{OLD}"


def test_two_campaigns_on_one_stream_are_refused() -> None:
    fleet = fleet_of(*NAMES)
    fleet.begin(*WAVES)

    with pytest.raises(CampaignRefused, match=r"Campaign 1 is open and has stream 'f'"):
        fleet.begin(("f", "g"))
    acts.take_out(fleet.campaigns, 1, "f", **ADA)
    assert fleet.begin(("f",)).campaign.number == 2


def test_two_campaigns_that_begin_at_once_do_not_share_a_stream() -> None:
    fleet = fleet_of(*NAMES)

    def overtaken() -> None:
        fleet.store.before_create = lambda: None
        fleet.begin(("a",))

    fleet.store.before_create = overtaken
    with pytest.raises(CampaignRefused, match="Campaign 1 is open"):
        fleet.begin(("b",), ("a",))
    assert fleet.campaigns.numbers() == [1]


def test_a_campaign_that_died_before_its_check_touches_no_stream() -> None:
    fleet = fleet_of(*NAMES)
    fleet.begin(("a",))
    forged = fleet.campaigns.campaign(1)
    fleet.campaigns.begin(replace(forged, number=2))

    assert fleet.work(2).state.outcome is CampaignOutcome.ABORTED
    assert deployments(fleet) == "111111"
    assert fleet.play().state.outcome is CampaignOutcome.DONE
    assert fleet.streams["a"].deployment == CANDIDATE


def test_a_retried_request_finds_its_campaign() -> None:
    fleet = fleet_of(*NAMES)

    first, again = (fleet.begin(("a",), key="run-1") for _ in range(2))

    assert first.campaign == again.campaign
    assert fleet.begin(("b",), key="run-2").campaign.number == 2


def test_a_kept_stream_whose_driver_fails_stops_the_campaign() -> None:
    fleet = fleet_of(*NAMES)
    fleet.begin(*WAVES, wave_soak=timedelta(minutes=30))
    while deployments(fleet) != "211111" or fleet.state().in_flight:
        fleet.work()
        fleet.tick()
    fleet.sick["a"] = "Its circuit is open."

    assert fleet.play().state.outcome is CampaignOutcome.STOPPED
    assert deployments(fleet) == "211111"


def test_a_missing_step_blocks_the_campaign() -> None:
    fleet = fleet_of(*NAMES)
    fleet.begin(*WAVES)
    fleet.work()
    fleet.store.delete("_fleet/campaigns/000001/steps/000001.json")

    with pytest.raises(RecordError, match=r"Step 1 of campaign 1 is missing"):
        fleet.work()
