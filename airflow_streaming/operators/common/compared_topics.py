"""The ranges of two topics that a cutover compares, from the records of both lanes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from airflow_streaming.changes.judging.lane_figures import longest_wait
from airflow_streaming.changes.topic_comparison import TopicRange, compare_topics
from airflow_streaming.changes.topic_connection import (
    SERVERS,
    Launched,
    NoConnection,
    connection_of,
)
from airflow_streaming.exceptions import SpecError
from airflow_streaming.home.home import StreamHome
from airflow_streaming.model.arguments.choices import StartWay
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import CompareReport, ComparisonRequest, not_made
from airflow_streaming.model.names import base_of
from airflow_streaming.model.records.control import ChangeKind
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.failures import presentable
from airflow_streaming.model.spark.plan import KAFKA, SinkPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """
    A deployment with the records of its lane.

    :param is_fresh: Its checkpoint began empty in the cutover.
    :param complete_from: Its state is complete for results that close after this time.
    """

    deployment: Deployment
    home: StreamHome
    is_fresh: bool = False
    complete_from: datetime | None = None

    @property
    def replayed(self) -> datetime | None:
        """The time from which the lane has read its sources; ``None`` for any other start."""
        text = self.deployment.replay_from
        return datetime.fromisoformat(text) if text else None

    @property
    def launched_at(self) -> datetime | None:
        first = self.home.first_epoch(self.deployment.number)
        return None if first is None else first.created_at


def compare_lanes(
    terms: CompareTerms, blue: Lane, green: Lane, launched: Launched
) -> CompareReport:
    """
    Compare the topics of two lanes in this process; see ``topic_comparison`` for the reason.

    :param launched: Green's configuration and environment, with their secrets.
    :raises SpecError: a topic is not known, or the lanes write to two clusters.
    """
    sinks = [topic_of(terms, lane) for lane in (blue, green)]
    if SERVERS not in terms.options:
        _check_one_broker(*sinks)
    try:
        options = connection_of(sinks[0].options, terms.options, launched)
    except NoConnection as err:
        asked = ComparisonRequest(terms=terms, blue=sinks[0].target, green=sinks[1].target)
        return not_made(asked, presentable(str(err)), at=datetime.now(UTC), refused=True)
    replayed = green.replayed
    is_whole = replayed is None and green.is_fresh
    # Green's checkpoint was copied before its first launch. Blue may have written since the proposal.
    since = green.launched_at or green.deployment.created_at
    return compare_topics(
        terms,
        TopicRange(
            topic=sinks[0].target,
            since=None if is_whole else since,
            read_since=replayed,
            lacks_history=(is_whole or replayed is not None) and not _reaches_back(blue, replayed),
        ),
        TopicRange(topic=sinks[1].target, since=since),
        options=options,
        complete_from=_windows_from(green),
        in_flight=in_flight(blue.home, green.home),
    )


def topic_of(terms: CompareTerms, lane: Lane) -> SinkPlan:
    """
    Return the Kafka sink of a lane, with the topic of the terms or of the lane's newest plans.

    :raises SpecError: the terms name no topic, and the plans have not exactly one.
    """
    deployment = lane.deployment
    plans = lane.home.newest_plans(deployment.number)
    sinks = [sink for plan in plans for sink in (plan.sink, *plan.writes) if sink.sink == KAFKA]
    if terms.topic:
        named = deployment.filled(terms.topic, lane.home.store.uri)
        # A sink of another query can have another cluster, so the sink that names the topic gives the connection.
        ranked = sorted(sinks, key=lambda sink: named not in sink.possible_topics)
        options = ranked[0].options if ranked else {}
        return SinkPlan(sink=KAFKA, target=named, options=options)
    topics = list({sink.target: sink for sink in sinks if sink.target}.values())
    if len(topics) != 1:
        raise SpecError(
            f"The plans of {deployment.stream} have {len(topics)} sinks with a topic, and a comparison "
            "needs one. Give CompareTerms a topic, e.g. topic='orders-{stream}-{deployment}'."
        )
    return topics[0]


def in_flight(*lanes: StreamHome) -> timedelta:
    """Return how long the slower lane may take to write a row that another lane has written."""
    epochs = [(home, home.newest_epoch()) for home in lanes]
    return longest_wait(*(home.status(epoch.number) for home, epoch in epochs if epoch))


def has_whole_history(deployment: Deployment, base: StreamHome) -> bool:
    """
    Tell whether a deployment has read its sources from their beginning, as far as the records show it.

    :param base: Records of the stream, which has the cutovers of both lanes.
    """
    if deployment.replay_from:
        return False
    for change in reversed(base.changes()):
        if change.what is ChangeKind.CUTOVER:
            leader, number = base.leader_of(change)
            for pair in leader.cutover_terms(leader.change(number)).pairs:
                numbers = (pair.shadow.number, pair.live.number)
                if pair.green == deployment.stream and deployment.number in numbers:
                    return pair.start is StartWay.FRESH
    return deployment.number == 1


def _reaches_back(blue: Lane, replayed: datetime | None) -> bool:
    """Tell whether blue's own topic has the results of a replay, or of the beginning of the sources."""
    begun = blue.launched_at
    if replayed is not None and begun is not None and begun <= replayed:
        return True
    base = blue.home.beside(base_of(blue.deployment.stream))
    return has_whole_history(blue.deployment, base)


def _windows_from(green: Lane) -> datetime | None:
    """
    Return the time from which green's results are complete after a replay; ``None`` for a green without state.

    A window that begins with the replay, or later, has all its rows. Other state is complete for results that
    close after blue's watermark.
    """
    replayed = green.replayed
    plans = green.home.newest_plans(green.deployment.number)
    operators = [operator for plan in plans for operator in plan.operators]
    if replayed is None or not operators:
        return None
    if all(operator.window_us for operator in operators):
        return replayed
    return max(replayed, green.complete_from or replayed)


def _check_one_broker(blue: SinkPlan, green: SinkPlan) -> None:
    """
    Do nothing for sinks of one Kafka cluster, or of unknown clusters.

    :raises SpecError: naming both topics with their brokers.
    """
    brokers = [{one.strip() for one in _servers(sink).split(",")} for sink in (blue, green)]
    if all(map(_servers, (blue, green))) and brokers[0].isdisjoint(brokers[1]):
        raise SpecError(
            f"Topic {blue.target} on {_servers(blue)} and topic {green.target} on {_servers(green)} have no "
            "broker in common, and a comparison reads both from one cluster. If the brokers are one cluster, give "
            f"CompareTerms options={{{SERVERS!r}: ...}}."
        )


def _servers(sink: SinkPlan) -> str:
    return sink.options.get(SERVERS, "")
