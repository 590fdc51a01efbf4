"""
Plan a campaign by the records: its streams in order, its waves, and the findings on each stream.

Nothing is changed. By default no Spark is started, and a finding that needs plan mode is `unknown`. The task of the
campaign runs plan mode, and rehearses where it must, before the upgrade of each stream begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from airflow_streaming.changes.campaign.waves import follows_of, waves_of
from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, report_of
from airflow_streaming.gates.version_gate import gate_stream_version
from airflow_streaming.home.campaigns import Campaigns
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.arguments.selector import parse_selector
from airflow_streaming.model.names import base_of
from airflow_streaming.model.products.datasets import stream_datasets
from airflow_streaming.model.products.stream_graph import StreamGraph
from airflow_streaming.model.records.campaign import FleetChange
from airflow_streaming.model.records.control import CircuitState, DesiredState
from airflow_streaming.reports.campaigns.course import PlanRow
from airflow_streaming.services.campaigns.commands import open_campaigns
from airflow_streaming.services.selection import LookAt, selected
from airflow_streaming.storage.one_look import look_at_each

_NOT_ALLOWED: Final = GateDecision.NOT_ALLOWED
Examine = Callable[[StreamHome], GateReport]
"""Judges the change of one stream; may raise ``StreamingError``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSelection:
    """
    The streams that a campaign is about.

    :param lanes: The live lane of each stream, in the order of their data.
    :param waves: The streams of each wave.
    :param follows: By stream, the streams whose output it reads directly.
    """

    lanes: Mapping[str, str]
    waves: tuple[tuple[str, ...], ...]
    follows: Mapping[str, tuple[str, ...]]


def select_streams(
    home: Home,
    lanes: Sequence[str],
    selector: str,
    look: LookAt,
    *,
    sizes: Sequence[str],
    canaries: Collection[str] = (),
) -> FleetSelection:
    """
    Return the streams that a selector selects, in waves.

    :param lanes: The live lanes of the home.
    :raises SpecError: the selector, a size or a canary is wrong, or no stream matches.
    """
    found = selected(home, lanes, parse_selector(selector), look)
    if not found:
        raise SpecError(f"No stream of {home.store.uri} matches {selector!r:.200}.")
    plans = look_at_each(home.store, lambda lane: home.stream(lane).newest_plans(), found)
    datasets = [stream_datasets(one) for one in plans]
    graph = StreamGraph.of(dict(zip(map(base_of, found), datasets, strict=True)))
    order = graph.in_order()
    by_name = {base_of(lane): lane for lane in found}
    return FleetSelection(
        lanes={name: by_name[name] for name in order},
        waves=waves_of(order, sizes, canaries=canaries),
        follows=follows_of(graph, order),
    )


def plan_campaign(
    home: Home,
    selection: FleetSelection,
    change: FleetChange,
    *,
    spark: str = "",
    storage_options: Mapping[str, Any] | None = None,
    examine: Examine | None = None,
    at_once: int = 1,
) -> list[PlanRow]:
    """
    Return the findings on each stream, the worst stream first.

    :param spark: Version of the new runtime's Spark; empty where it is not known here.
    :param examine: Runs the gate on a stream with a Spark, ``at_once`` streams at a time; default: records alone.
    """
    taken = {
        name: state.campaign.number
        for state in open_campaigns(Campaigns(home.store))
        for name in state.reserved
    }
    waves = {name: n for n, names in enumerate(selection.waves, 1) for name in names}

    def plan(name: str) -> PlanRow:
        stream = home.stream(selection.lanes[name])
        deployment = stream.newest_deployment()
        return PlanRow(
            stream=name,
            wave=waves[name],
            spark="" if deployment is None else deployment.spark_version,
            report=_judged(
                stream, taken.get(name), examine or _by_records(change, spark, storage_options)
            ),
        )

    rows = _planned(home, plan, list(selection.lanes), at_once if examine else 0)
    return sorted(rows, key=lambda row: (-row.decision.weight, row.wave, row.stream))


def _planned(
    home: Home, plan: Callable[[str], PlanRow], names: Sequence[str], threads: int
) -> list[PlanRow]:
    if not threads:
        return look_at_each(home.store, plan, names)
    with ThreadPoolExecutor(threads, "plan") as pool:
        return list(pool.map(plan, names))


def _judged(stream: StreamHome, taken: int | None, examine: Examine) -> GateReport:
    """Return the findings on one stream; a stream that cannot be read does not hold up the others."""
    findings: list[GateFinding] = []
    try:
        findings += _in_the_way(stream, taken)
        findings += examine(stream).findings
    except StreamingError as err:
        findings.append(_finding("campaign.unread", GateDecision.UNKNOWN, str(err)))
    return report_of(findings)


def _by_records(
    change: FleetChange, spark: str, storage_options: Mapping[str, Any] | None
) -> Examine:
    """Return the gate on a stream's records, which starts no Spark."""

    def examine(stream: StreamHome) -> GateReport:
        findings, deployment = _of_change(change, spark), stream.newest_deployment()
        if spark and deployment is not None and deployment.spark_version != spark:
            conf = {key: text for key, text in change.conf.items() if text is not None}
            report = gate_stream_version(
                stream, spark, conf={**deployment.conf, **conf}, storage_options=storage_options
            )
            findings += report.findings
        return report_of(findings)

    return examine


def _in_the_way(stream: StreamHome, taken: int | None) -> list[GateFinding]:
    change, desired, circuit = stream.unfinished_change(), stream.desired(), stream.circuit()
    found: list[str] = []
    if stream.newest_epoch() is None:
        found.append("It has never run.")
    if desired is not None and desired.state is DesiredState.STOPPED:
        found.append(f'Its desired state is "stopped": {desired.reason}')
    if circuit is not None and circuit.state is not CircuitState.CLOSED:
        found.append(f"Its circuit is open: {circuit.reason}")
    if change is not None:
        found.append(f"Change {change.number} ({change.what}) is open: {change.reason}")
    if taken is not None:
        found.append(f"Campaign {taken} is open and has this stream.")
    return [_finding("campaign.stream", _NOT_ALLOWED, text) for text in found]


def _of_change(change: FleetChange, spark: str) -> list[GateFinding]:
    found: list[str] = []
    if change.runtime and not spark:
        found.append(f"This host does not know runtime {change.runtime!r}.")
    if change.application:
        found.append("Plan mode judges the new script before the upgrade begins.")
    if change.conf or change.size:
        found.append("Plan mode judges the new settings before the upgrade begins.")
    return [_finding("campaign.preflight", GateDecision.UNKNOWN, text) for text in found]


def _finding(rule: str, severity: GateDecision, message: str) -> GateFinding:
    return GateFinding(rule=rule, severity=severity, message=message)
