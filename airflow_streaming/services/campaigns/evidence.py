"""Collect the evidence of a campaign from the homes of its streams."""

from __future__ import annotations

from airflow_streaming.changes.campaign.upgrades import change_of
from airflow_streaming.exceptions import StreamingError
from airflow_streaming.home.home import Home
from airflow_streaming.home.live_lane import live_lane
from airflow_streaming.model.records.campaign import Campaign
from airflow_streaming.model.records.change_table import facts_of
from airflow_streaming.reports.campaigns.course import MemberEvidence
from airflow_streaming.storage.one_look import look_at_each


def evidence_of(home: Home, campaign: Campaign) -> list[MemberEvidence]:
    """Return the part of each stream by its home; of an unreadable stream, the error."""

    def look(name: str) -> MemberEvidence:
        try:
            return _evidence(home, campaign, name)
        except StreamingError as err:
            return MemberEvidence(stream=name, reason=str(err))

    return look_at_each(home.store, look, campaign.streams)


def _evidence(home: Home, campaign: Campaign, name: str) -> MemberEvidence:
    stream = home.stream(live_lane(home, name))
    change = change_of(stream, campaign)
    if change is None:
        return MemberEvidence(stream=name)
    steps, end = stream.upgrade_steps(change.number), stream.change_end(change.number)
    facts = facts_of(steps)
    return MemberEvidence(
        stream=name,
        change=change.number,
        outcome="" if end is None else end.outcome.value,
        reason=steps[-1].reason if steps else change.reason,
        replaced=change.replaced,
        deployment=change.deployment,
        boundary=facts.get("boundary") or facts.get("backup", ""),
        fingerprint=stream.terms(change).proposed.fingerprint,
        terms=change.terms,
        figures={key: text for key, text in facts.items() if key.startswith("soak.")},
    )
