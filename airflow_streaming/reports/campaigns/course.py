"""The reports of a campaign: its plan, and the evidence of its course. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.changes.campaign.state import CampaignState
from airflow_streaming.gates.findings import GateDecision, GateReport
from airflow_streaming.model.codec import encode, format_time
from airflow_streaming.model.records.campaign import CampaignOutcome, CampaignStep, FleetChange
from airflow_streaming.reports.report import (
    Block,
    Heading,
    Paragraph,
    Report,
    Tone,
    Verdict,
    counted,
    facts,
    report_of,
    table,
    value,
)

_TONES: Final = {
    CampaignOutcome.DONE: Tone.GOOD,
    CampaignOutcome.STOPPED: Tone.BAD,
    CampaignOutcome.ABORTED: Tone.WARNING,
}
_SHOWN: Final = 5
"""Names of streams in a row."""
_WORST_FIRST: Final = tuple(reversed(GateDecision))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """
    A stream of a planned campaign.

    :param wave: From 1.
    :param spark: Version of its Spark now.
    """

    stream: str
    wave: int
    spark: str
    report: GateReport

    @property
    def decision(self) -> GateDecision:
        """Return the worst finding's decision."""
        return self.report.decision


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEvidence:
    """
    What the home of a stream tells of its part in a campaign.

    :param change: Its upgrade; 0 without one.
    :param outcome: How the upgrade ended; empty while it is open.
    :param boundary: The backup of the old deployment's last batch.
    :param fingerprint: Digest of the new deployment.
    :param terms: Digest of the terms of the upgrade.
    :param figures: Figures of its soak, by query.
    """

    stream: str
    change: int = 0
    outcome: str = ""
    reason: str = ""
    replaced: int = 0
    deployment: int = 0
    boundary: str = ""
    fingerprint: str = ""
    terms: str = ""
    figures: Mapping[str, str] | None = None


def plan_report(rows: Sequence[PlanRow], change: FleetChange, waves: Sequence[int]) -> Report:
    """
    Return a planned campaign: the worst stream first.

    :param waves: Number of streams in each wave.
    """
    counts = Counter(row.decision for row in rows)
    told = ", ".join(f"{counts[one]} {_words(one)}" for one in _WORST_FIRST if counts[one])
    return report_of(
        [
            Heading("Plan of a campaign", 2),
            Paragraph(
                (f"{counted(len(rows), 'stream')}, change: ", value(str(change)), f". {told}.")
            ),
            Paragraph(f"Waves: {', '.join(map(str, waves))}. Nothing was changed."),
            table(
                ("stream", "wave", "Spark", "decision", "why"),
                (
                    (value(row.stream), str(row.wave), row.spark, _words(row.decision), _why(row))
                    for row in rows
                ),
                numbers="wave",
            ),
        ]
    )


def plan_facts(rows: Sequence[PlanRow], change: FleetChange) -> dict[str, Any]:
    """Return a planned campaign as JSON."""
    return {
        "change": encode(change),
        "streams": [
            {
                "stream": row.stream,
                "wave": row.wave,
                "spark": row.spark,
                **row.report.to_dict(),
            }
            for row in rows
        ],
    }


def campaign_report(
    state: CampaignState, steps: Sequence[CampaignStep], members: Sequence[MemberEvidence] = ()
) -> Report:
    """Return the course of a campaign: who, when, verdicts, backups and digests."""
    return report_of(_blocks(state, steps, members))


def campaign_facts(
    state: CampaignState, steps: Sequence[CampaignStep], members: Sequence[MemberEvidence] = ()
) -> dict[str, Any]:
    """Return the course of a campaign as JSON."""
    return {
        "campaign": state.campaign.to_dict(),
        "outcome": None if state.outcome is None else state.outcome.value,
        "wave": state.wave,
        "paused": state.is_paused,
        "streams": {name: member.value for name, member in state.members.items()},
        "taken_out": sorted(state.taken_out),
        "bad": dict(state.bad),
        "steps": [encode(step) for step in steps],
        "upgrades": [encode(one) for one in members],
    }


def _blocks(
    state: CampaignState, steps: Sequence[CampaignStep], members: Sequence[MemberEvidence]
) -> Iterator[Block]:
    campaign, counts = state.campaign, Counter(state.members.values())
    yield Heading(f"Campaign {campaign.number}", 2)
    yield Verdict(
        word=state.word,
        tone=Tone.NEUTRAL if state.outcome is None else _TONES[state.outcome],
        reason=", ".join(f"{count} {_words(one)}" for one, count in counts.items()),
    )
    yield facts(
        [
            ("Change", value(str(campaign.change))),
            ("Selector", value(campaign.selector)),
            ("Begun", (f"{format_time(campaign.at)} by ", value(campaign.by))),
            ("Reason", value(campaign.reason)),
            ("Wave", f"{state.wave} of {len(campaign.waves)}"),
        ]
    )
    for name, why in state.bad.items():
        yield Paragraph((value(name), " stopped the campaign: ", value(why)))
    if state.word == "stopping":
        yield Paragraph(
            "The next run of the fleet's DAG puts streams back and closes the campaign."
        )
    yield Heading("Streams")
    if not members:
        waves = enumerate(campaign.waves, 1)
        yield table(
            ("stream", "wave", "state"),
            (
                (value(name), str(wave), _words(state.members[name]))
                for wave, names in waves
                for name in names
            ),
            numbers="wave",
        )
    else:
        yield table(
            ("stream", "state", "change", "from", "to", "backup", "digest", "reason"),
            (_member(one, state) for one in members),
            numbers="change, from, to",
        )
    yield Heading("Steps")
    yield table(
        ("time", "step", "by", "reason"),
        ((format_time(s.at), _step(s), value(s.by), value(s.reason)) for s in steps),
    )


def _step(step: CampaignStep) -> Any:
    streams = ", ".join(step.streams[:_SHOWN])
    more = f" and {len(step.streams) - _SHOWN} more" if len(step.streams) > _SHOWN else ""
    return (_words(step.event), ": " if streams else "", value(streams), more)


def _member(one: MemberEvidence, state: CampaignState) -> tuple[Any, ...]:
    numbers = (one.change, one.replaced, one.deployment)
    return (
        value(one.stream),
        _words(state.members[one.stream]),
        *(str(number) if number else "" for number in numbers),
        value(one.boundary),
        one.fingerprint[:12],
        value(one.reason),
    )


def _why(row: PlanRow) -> Any:
    messages = [finding.message for finding in row.report.findings]
    return value(" ".join(messages)) if messages else "No finding."


def _words(name: str) -> str:
    return str(name).replace("_", " ")
