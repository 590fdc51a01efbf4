"""
The plan of a cutover: its terms, its preflight and the checkpoint that green begins with.

The gates judge blue's checkpoint as for an upgrade. Their findings count only for the parts of the checkpoint
that green begins with. Where green begins with an empty checkpoint, the findings on blue's are the reason for
the cutover and do not refuse it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.gates.findings import (
    GateDecision,
    GateFinding,
    GateReport,
    Pattern,
    report_of,
    worst,
)
from airflow_streaming.model.arguments.choices import StartWay, SwitchMethod
from airflow_streaming.model.arguments.fields import Positive, check_values, named_fields
from airflow_streaming.model.arguments.terms import CompareTerms, ReadyTerms, SoakTerms
from airflow_streaming.model.codec import encode
from airflow_streaming.model.records.change_table import words
from airflow_streaming.model.records.cutover_table import DEADLINES, CutoverState

if TYPE_CHECKING:
    from airflow_streaming.changes.judging.methods import ReplayStart, WaysReport
    from airflow_streaming.changes.upgrade.preflight_report import Difference
    from airflow_streaming.model.records.cutover import CutoverTerms, Pair
    from airflow_streaming.model.records.deployment import Override
    from airflow_streaming.model.spark.plan import QueryPlan

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
_OF_SCRIPT: Final = ("plan.", "script.", "live.")
"""Rules on the new script and deployment; they count for every start of green."""
_OF_POSITION: Final = ("source.", "checkpoint.")
"""Rules on the position that green carries over."""
_STARTS: Final = {
    Pattern.CARRIED_OVER: StartWay.CARRIED,
    Pattern.BLUE_GREEN: StartWay.FRESH,
    None: StartWay.FRESH,
}
_CHOSEN: Final = "A user has chosen this start."
_NOTHING_TO_COPY: Final = "Blue has no committed checkpoint of any of these queries, so green starts with empty checkpoints."
_BY_GATE: Final = {
    StartWay.CLONED: "The gates let the new version resume from blue's checkpoint, so green gets a copy "
    "of it.",
    StartWay.CARRIED: "The new version cannot resume from blue's checkpoint, which holds no state worth "
    "keeping, so green takes over blue's position in the sources.",
    StartWay.FRESH: "The gates do not let the new version resume from blue's checkpoint, so green "
    "rebuilds its state.",
}


@named_fields
@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverPlan:
    """
    The terms of a cutover as a DAG gives them; ``CutoverTerms`` describes the fields.

    :param pointers: Pointers outside the home, by name, and whether each moves atomically.
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
        Do nothing for a plan that fits the streams.

        :raises SpecError: a deadline names an unknown state, or a comparison or pointer names another stream.
        """
        states = {state.value for state in DEADLINES}
        odd = sorted(set(self.deadlines) - states)
        if odd:
            raise SpecError(f"{odd[0]!r} has no deadline; give {', '.join(sorted(states))}.")
        lost = [name for name in self.pointers if "/" in name and name.split("/")[0] not in streams]
        if lost:
            raise SpecError(
                f"Pointer {lost[0]!r} names a stream outside the cutover of {', '.join(streams)}."
            )
        strangers = sorted({terms.stream for terms in self.compare} - set(streams))
        if strangers:
            raise SpecError(
                f"A comparison names stream {strangers[0]!r}, outside the cutover of "
                f"{', '.join(streams)}."
            )

    def deadline(self, state: CutoverState) -> timedelta | None:
        """Return the longest time in a state; ``None`` for a state without a deadline."""
        return self.deadlines.get(state.value, DEADLINES.get(state))

    def terms(self, way: SwitchMethod, pairs: tuple[Pair, ...], key: str) -> CutoverTerms:
        """Return the terms of a cutover by this plan; the record of the change adds its number."""
        from airflow_streaming.model.records.cutover import CutoverTerms  # not at dag parse

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


def check_format(terms: CompareTerms, plans: Sequence[QueryPlan]) -> None:
    """
    Do nothing for a comparison that can read the files of a stream.

    :param plans: Newest plans of blue.
    :raises SpecError: every query writes files, and none of this format.
    """
    from airflow_streaming.model.records.upgrade import FILE  # not at dag parse

    written = {plan.sink.format.lower() for plan in plans if plan.sink.sink == FILE}
    is_files_only = bool(plans) and all(plan.sink.sink == FILE for plan in plans)
    if is_files_only and terms.format.lower() not in written:
        raise SpecError(
            f"CompareTerms of stream {terms.stream!r} has format {terms.format!r}, and its queries write "
            f"{', '.join(sorted(written))}. Set format={min(written)!r} in the DAG."
        )


def outcome(state: CutoverState) -> str:
    """Return the effect of a command as a sentence, by the state of the cutover after the command."""
    return _OUTCOMES.get(state, f"It is {words(state)}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairPreflight:
    """
    The preflight of one stream.

    :param pair: Blue and green lane of the stream.
    :param differences: Changes of green, by configuration key.
    :param gates: Findings on a resume from blue's checkpoint.
    :param ways: The sound methods of switching, and the consequences of each.
    :param why: The reason for green's start, as a sentence.
    :param replay: Time from which a fresh green must read; ``None`` for every other start.
    """

    pair: Pair
    differences: tuple[Difference, ...]
    gates: GateReport
    ways: WaysReport
    why: str
    replay: ReplayStart | None = None
    kept: tuple[Override, ...] = ()

    def deciding(self, way: SwitchMethod) -> GateReport:
        """Return the findings that decide, on the start and on the method."""
        found = [*counted(self.gates, self.pair.start), *self.ways.of(way).findings]
        return report_of(found, self.gates.pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class CutoverPreflight:
    """
    The preflight of a cutover.

    :param way: Method by which green becomes live.
    :param pairs: Every stream; the first leads.
    """

    way: SwitchMethod
    pairs: tuple[PairPreflight, ...]

    @property
    def decision(self) -> GateDecision:
        """Return the decision for all streams together: all of them switch, or none."""
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
        Return the JSON for the later tasks.

        The fingerprint of a deployment takes the place of the deployment, whose arguments may hold secrets.
        """
        return {
            "way": self.way.value,
            "decision": self.decision.value,
            "gates": self.deciding.to_dict(),
            "pairs": [_told(one) for one in self.pairs],
        }


def start_by_gate(gates: GateReport) -> StartWay:
    """
    Return the start of green by the findings on blue's checkpoint.

    Unknown findings do not prevent a copy: green runs beside blue and proves itself there.
    """
    if gates.pattern in _STARTS:
        return _STARTS[gates.pattern]
    return StartWay.CLONED


def chosen_start(
    wanted: StartWay | None, gates: GateReport, queries: Collection[str], absent: Collection[str]
) -> tuple[StartWay, str]:
    """
    Return the start of green, and the reason.

    :param wanted: The start that a user has chosen; ``None`` to decide by the gates.
    :param queries: Names of green's queries.
    :param absent: Green's queries for which blue has no checkpoint with a committed batch.
    """
    if wanted is not None:
        return wanted, _CHOSEN
    if queries and set(queries) <= set(absent):
        return StartWay.FRESH, _NOTHING_TO_COPY
    start = start_by_gate(gates)
    return start, _BY_GATE[start]


def counted(gates: GateReport, start: StartWay) -> Iterator[GateFinding]:
    """Yield the findings that count for a start; unknown findings become consequences."""
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
    if start.is_copy or finding.rule.startswith(_OF_SCRIPT):
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
        "migrations": encode(pair.migrations),
        "differences": encode(one.differences),
        "sound": [way.value for way in one.ways.sound],
    }


def _of(stream: str, query: str) -> str:
    return f"{stream}: {query}" if query else stream


def _complete_from(replay: ReplayStart | None) -> str:
    if replay is None or replay.complete_from is None:
        return ""
    return replay.complete_from.isoformat()
