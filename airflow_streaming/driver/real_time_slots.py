"""
The task slots of queries in real-time mode, counted before a start.

Each partition of the topics has a task for the whole interval, and so has each partition behind a shuffle. Spark fails a
query with state that lacks slots. Of a query without state it runs the tasks that fit, and the other partitions are
never read.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from typing import Any, Final

from airflow_streaming.driver.errors import ErrorBoundary
from airflow_streaming.driver.plan.nodes import Node, read_tree
from airflow_streaming.driver.plan.sources import formats_and_options
from airflow_streaming.model.plan.real_time import SlotDemand, is_real_time, slots_of
from airflow_streaming.model.spark.plan import KAFKA

ASK_SECONDS: Final = 20.0
"""Seconds that the brokers get to name the partitions of the topics."""
_OF_KAFKA: Final = "kafka."
_SHUFFLES: Final = frozenset({"Aggregate", "Deduplicate", "Repartition", "RepartitionByExpression"})
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


class RealTimeSlots:
    """Counts the slots of an application's queries in real-time mode."""

    def __init__(self) -> None:
        self._faults = ErrorBoundary()
        self._held: dict[str, int] = {}

    def demand_of(self, writer: Any, name: str, trigger: str) -> SlotDemand | None:
        """
        Return the slots of a query that is about to start; ``None`` of another query, or where they are unknown.

        :param writer: The ``DataStreamWriter``.
        :param trigger: The processing trigger as in a plan.
        """
        self._held.pop(name, None)
        if not is_real_time(trigger):
            return None
        found: SlotDemand | None = None
        with self._faults.contained(f"Counting the task slots of query {name!r}"):
            found = self._count(writer)
        if found is not None:
            self._held[name] = found.readers + found.stateful
        return found

    def _count(self, writer: Any) -> SlotDemand | None:
        context = writer._spark.sparkContext
        plan = writer._df._jdf.queryExecution().analyzed()
        readers = readers_of(plan, context._jvm)
        if readers is None:
            return None
        shuffles = shuffles_in(read_tree(plan.toJSON()))
        return SlotDemand(
            readers=readers,
            stateful=shuffles * int(writer._spark.conf.get(_PARTITIONS)),
            others=sum(self._held.values()),
            slots=slots_of(dict(context.getConf().getAll()), context.defaultParallelism),
        )


def shuffles_in(tree: Node) -> int:
    """Return the shuffles that the plan of a query in real-time mode has."""
    return sum(node.name in _SHUFFLES for node in tree.walk())


def readers_of(plan: Any, jvm: Any) -> int | None:
    """Return the partitions of all topics that a plan reads; ``None`` where the brokers do not say in time."""
    sources = [options for name, options in formats_and_options(plan) if name == KAFKA]
    counts: list[int] = []

    def ask() -> None:
        with ErrorBoundary().contained("Asking the brokers for the partitions of topics"):
            counts.extend(_partitions(options, jvm) for options in sources)

    asking = threading.Thread(target=ask, name="airflow-streaming-partitions", daemon=True)
    asking.start()
    asking.join(ASK_SECONDS)
    return sum(counts) if sources and len(counts) == len(sources) else None


def _partitions(options: Mapping[str, str], jvm: Any) -> int:
    ways = {key.lower(): value for key, value in options.items()}
    if "assign" in ways:
        return sum(len(partitions) for partitions in json.loads(ways["assign"]).values())
    properties = jvm.java.util.HashMap()
    for key, value in options.items():
        if key.startswith(_OF_KAFKA):
            properties.put(key.removeprefix(_OF_KAFKA), value)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        names = jvm.java.util.ArrayList()
        for topic in _topics(ways, admin):
            names.add(topic)
        found = admin.describeTopics(names).allTopicNames().get()
        return sum(int(found[topic].partitions().size()) for topic in found)
    finally:
        admin.close()


def _topics(ways: Mapping[str, str], admin: Any) -> list[str]:
    if "subscribe" in ways:
        return [topic.strip() for topic in ways["subscribe"].split(",") if topic.strip()]
    names = map(str, admin.listTopics().names().get())
    return [name for name in names if re.fullmatch(ways.get("subscribepattern", ""), name)]
