"""
How a cutover is to go: plan, preflight, and the commands it accepts where it stands.

The gates are asked about blue's checkpoint as for an upgrade, but their answer counts only as far
as green begins with it. A start with an empty checkpoint asks nothing of the old one: there the
findings are the reason for the cutover, and not one against it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from airflow_streaming.changes.judging.methods import ReplayStart, WaysReport
from airflow_streaming.changes.upgrade.preflight_report import Difference
from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import (
    GateDecision,
    GateFinding,
    GateReport,
    Pattern,
    report_of,
    worst,
)
from airflow_streaming.model.arguments.fields import Positive, check_values, named_fields
from airflow_streaming.model.codec import encode
from airflow_streaming.model.records.change_table import words
from airflow_streaming.model.records.cutover import (
    DEADLINES,
    CompareTerms,
    CutoverTerms,
    Pair,
    ReadyTerms,
    StartWay,
    SwitchMethod,
)
from airflow_streaming.model.records.cutover_table import CutoverState
from airflow_streaming.model.records.deployment import Override
from airflow_streaming.model.records.upgrade import SoakTerms


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverPlan:
    """
    How a cutover is to go; the fields are those of ``CutoverTerms``.

    :param pointers: What consumers follow outside the home, by name, and whether it moves as one.
    """

    ready: ReadyTerms = field(default_factory=ReadyTerms)
    soak: SoakTerms = field(default_factory=SoakTerms)
    compare: tuple[CompareTerms, ...] = ()
    promotes_by_itself: bool = False
    finalizes_by_itself: bool = True
    keeps_blue_running: bool = True
    retain_blue: timedelta = timedelta(days=1)
    deadlines: Mapping[str, Positive] = field(default_factory=dict)
    pointers: Mapping[str, bool] = field(default_factory=dict)
    checks: tuple[str, ...] = ()
    stop_grace: timedelta = timedelta(seconds=60)

    def __post_init__(self) -> None:
        check_values(self)

    def check(self, streams: tuple[str, ...]) -> None:
        """
        Do nothing for a course that streams can take.

        :raises SpecError: a deadline or a comparison is of something that there is not, or a value
            is none that there can be.
        """
        states = {state.value for state in DEADLINES}
        odd = sorted(set(self.deadlines) - states)
        if odd:
            raise SpecError(f"{odd[0]!r} has no deadline; give {', '.join(sorted(states))}.")
        lost = [name for name in self.pointers if "/" in name and name.split("/")[0] not in streams]
        if lost:
            raise SpecError(
                f"Pointer {lost[0]!r} is of no stream that switches: {', '.join(streams)}."
            )
        strangers = sorted({terms.stream for terms in self.compare} - set(streams))
        if strangers:
            raise SpecError(
                f"A comparison is given for stream {strangers[0]!r}, which is not among those that "
                f"switch: {', '.join(streams)}."
            )

    def deadline(self, state: CutoverState) -> timedelta | None:
        """Return how long a state may last; ``None`` for one that may last for ever."""
        return self.deadlines.get(state.value, DEADLINES.get(state))

    def terms(self, way: SwitchMethod, pairs: tuple[Pair, ...], key: str) -> CutoverTerms:
        """Return the terms of a cutover that takes this course; its number is given later."""
        return CutoverTerms(
            change=0,
            way=way,
            pairs=pairs,
            ready=self.ready,
            compare=self.compare,
            soak=self.soak,
            promotes_by_itself=self.promotes_by_itself,
            finalizes_by_itself=self.finalizes_by_itself,
            retain_blue=self.retain_blue,
            keeps_blue_running=self.keeps_blue_running,
            deadlines=self.deadlines,
            pointers=tuple(self.pointers),
            checks=self.checks,
            stop_grace=self.stop_grace,
            key=key,
        )


S = CutoverState
_BEFORE: Final = "The cutover is aborted before the switch: blue stays, or is started again."
_BACK: Final = "The cutover is rolled back: consumers are pointed back to blue."
_STAYS: Final = "Green stays: this is the point of no return."
_OUTCOMES: Final = {
    S.ABORTING: _BEFORE,
    S.ABORTED: "The cutover was aborted before the switch: blue is live.",
    S.ROLLING_BACK: _BACK,
    S.ROLLED_BACK: "The cutover was rolled back: blue is live again.",
    S.FINALIZING: _STAYS,
    S.FINALIZED: _STAYS,
    S.RETIRED: "Blue is retired; its lane is free.",
    S.LIVE: "Green is live.",
    S.SOAKING: "Green is live.",
    **dict.fromkeys((S.WARMING, S.DRAINING, S.SWITCHING), "Green becomes live."),
    **dict.fromkeys((S.CATCHING_UP, S.SHADOWING, S.COMPARING), "Green is measured once more."),
}


def outcome(state: CutoverState) -> str:
    """Return what has come of a word, by the state that a cutover is in after it."""
    return _OUTCOMES.get(state, f"It is {words(state)}.")


_OF_SCRIPT: Final = ("plan.", "script.", "live.")
"""Rules on the new script and deployment, which count whatever green begins with."""
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
    :param gates: What the gates say of continuing from blue's checkpoint.
    :param ways: Which ways of switching are sound, and what each brings.
    :param why: Why green begins as it does, in a sentence.
    :param replay: From when a fresh green must read; ``None`` for one that does not begin fresh.
    :param kept: Values that stay live though the DAG names others.
    """

    pair: Pair
    differences: tuple[Difference, ...]
    gates: GateReport
    ways: WaysReport
    why: str
    replay: ReplayStart | None = None
    kept: tuple[Override, ...] = ()

    def deciding(self, way: SwitchMethod) -> GateReport:
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

    way: SwitchMethod
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


def chosen_start(
    wanted: StartWay | None, gates: GateReport, queries: Collection[str], absent: Collection[str]
) -> tuple[StartWay, str]:
    """
    Return what green begins with, and why.

    :param wanted: What a user asks for; ``None`` to let the gates say.
    :param queries: Names of green's queries.
    :param absent: Those of them for which blue has no checkpoint with a committed batch.
    """
    if wanted is not None:
        return wanted, _CHOSEN
    if queries and set(queries) <= set(absent):
        return StartWay.FRESH, _NOTHING_TO_COPY
    start = start_by_gate(gates)
    return start, _BY_GATE[start]


_CHOSEN: Final = "It was asked for."
_NOTHING_TO_COPY: Final = "Blue has no committed checkpoint of any of these queries, so green starts with empty checkpoints."
_BY_GATE: Final = {
    StartWay.CLONED: "The gates let the new version resume from blue's checkpoint, so green gets a copy "
    "of it.",
    StartWay.CARRIED: "The new version cannot resume from blue's checkpoint, which holds no state worth "
    "keeping, so green takes over blue's position in the sources.",
    StartWay.FRESH: "The gates do not let the new version resume from blue's checkpoint, so green "
    "rebuilds its state.",
}


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
