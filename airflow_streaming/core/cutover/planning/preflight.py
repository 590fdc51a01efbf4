"""
Preflight of a cutover: what is known of every stream before anything is done.

The gates are asked about blue's checkpoint as for an upgrade, but their answer counts only as far
as green begins with it. A start with an empty checkpoint asks nothing of the old one: there the
findings are the reason for the cutover, and not one against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from airflow_streaming.core.codec import encode
from airflow_streaming.core.compatibility.finding import (
    GateDecision,
    GateFinding,
    GateReport,
    Pattern,
    report_of,
    worst,
)
from airflow_streaming.core.cutover.terms import Pair, StartWay, SwitchWay
from airflow_streaming.core.cutover.ways.judge import WaysReport
from airflow_streaming.core.cutover.ways.replay import ReplayStart
from airflow_streaming.core.upgrade.preflight import Difference

_OF_SCRIPT: Final = ("plan.", "script.")
"""Rules on the new script itself, which have to be put right whatever green begins with."""

_OF_POSITION: Final = ("source.", "checkpoint.")
"""Rules on what a carried-over position rests on."""

_STARTS: Final = {
    Pattern.CARRIED_OVER: StartWay.CARRIED,
    Pattern.BLUE_GREEN: StartWay.FRESH,
    None: StartWay.FRESH,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPreflight:
    """
    What was found of one stream.

    :param pair: What is to be moved.
    :param differences: What green changes, configuration key by key.
    :param gates: What the gates say of going on from blue's checkpoint.
    :param ways: Which ways of switching are sound, and what each brings.
    :param why: Why green begins as it does, in a sentence.
    :param replay: From when a fresh green has to read; ``None`` for one that does not begin fresh.
    """

    pair: Pair
    differences: tuple[Difference, ...]
    gates: GateReport
    ways: WaysReport
    why: str
    replay: ReplayStart | None = None

    def deciding(self, way: SwitchWay) -> GateReport:
        """Return the findings that decide: those on the start, and those on the way."""
        found = [*counted(self.gates, self.pair.start), *self.ways.of(way).findings]
        return report_of(found, self.gates.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverPreflight:
    """
    What was found before a cutover.

    :param way: How green is to become live.
    :param pairs: Every stream; the first leads.
    """

    way: SwitchWay
    pairs: tuple[PairPreflight, ...]

    @property
    def decision(self) -> GateDecision:
        """Return what decides over all streams together: all of them move, or none."""
        return worst(one.deciding(self.way).decision for one in self.pairs)

    @property
    def deciding(self) -> GateReport:
        """Return the findings that decide, of all streams."""
        several = len(self.pairs) > 1
        return report_of(
            replace(
                finding, query=_of(one.pair.stream, finding.query) if several else finding.query
            )
            for one in self.pairs
            for finding in one.deciding(self.way).findings
        )

    def to_dict(self) -> dict[str, Any]:
        """
        Return what the tasks after it need, as JSON.

        The deployments are left out: their arguments may hold secrets, and a fingerprint is all that
        is needed to know them again.
        """
        return {
            "way": self.way.value,
            "decision": self.decision.value,
            "gates": self.deciding.to_dict(),
            "pairs": [_told(one) for one in self.pairs],
        }


def start_by_gate(gates: GateReport) -> StartWay:
    """
    Return what green best begins with, by what the gates say of blue's checkpoint.

    What they do not know is no reason against a copy: green runs beside blue, which is the proof.
    """
    if gates.pattern in _STARTS:
        return _STARTS[gates.pattern]
    return StartWay.CLONED


def counted(gates: GateReport, start: StartWay) -> Iterator[GateFinding]:
    """Yield the findings of the gates that count for a start; those unknown will be seen beside."""
    for finding in gates.findings:
        if not _counts(finding, start):
            continue
        if finding.severity is GateDecision.UNKNOWN:
            yield replace(
                finding,
                severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
                remedy=f"{finding.remedy} Green shows it beside blue, before anything is switched.".strip(),
            )
        else:
            yield finding


def _counts(finding: GateFinding, start: StartWay) -> bool:
    if start is StartWay.CLONED or finding.rule.startswith(_OF_SCRIPT):
        return True
    return start is StartWay.CARRIED and finding.rule.startswith(_OF_POSITION)


def _told(one: PairPreflight) -> dict[str, Any]:
    pair = one.pair
    return {
        "stream": pair.stream,
        "blue": pair.blue,
        "green": pair.green,
        "replaced": pair.blue_deployment,
        "proposed": pair.shadow.number,
        "fingerprint": pair.shadow.fingerprint,
        "start": pair.start.value,
        "replay_from": pair.shadow.replay_from,
        "complete_from": _complete_from(one.replay),
        "queries": list(pair.queries),
        "stateful": list(pair.stateful),
        "sinks": encode(pair.sinks),
        "differences": encode(one.differences),
        "sound": [way.value for way in one.ways.sound],
    }


def _of(stream: str, query: str) -> str:
    return f"{stream}: {query}" if query else stream


def _complete_from(replay: ReplayStart | None) -> str:
    if replay is None or replay.complete_from is None:
        return ""
    return replay.complete_from.isoformat()
