"""One edit of a query's code as data, and the queries that are edited."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from airflow_streaming.gates.findings import GateDecision
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.spark.plan import QueryPlan, WatermarkPlan
from tests.unit.gates.change import builders as b

YES: Final = GateDecision.ALLOWED
TOLD: Final = GateDecision.ALLOWED_WITH_CONSEQUENCE
UNKNOWN: Final = GateDecision.UNKNOWN
NO: Final = GateDecision.NOT_ALLOWED


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One edit, and what the gate has to say of it: a rule that has to be named, and the decision."""

    name: str
    old: QueryPlan
    new: QueryPlan
    rule: str
    decision: GateDecision


def edit_of(name: str, old: QueryPlan, new: QueryPlan, rule: str, decision: GateDecision) -> Edit:
    return Edit(name=name, old=old, new=new, rule=rule, decision=decision)


STATELESS: Final = b.a_stateless()
AGG: Final = b.an_aggregation()
DEDUP: Final = b.a_deduplication()
JOIN: Final = b.a_join()
SESSION: Final = b.a_session()
GROUPS: Final = b.a_stateful_function()
TWS: Final = b.a_processor()
KAFKA: Final = replace(STATELESS, sources=(b.a_kafka_source(),))
KAFKA_COUNTED: Final = replace(
    AGG,
    sources=(b.a_kafka_source(),),
    watermarks=(),
    output_mode="update",
    sink=b.a_sink("foreachbatch", options={"function": "write"}, code="c"),
)
RATE: Final = b.with_source(STATELESS, source="rate", format="", paths=(), options={})
SOCKET: Final = b.with_source(
    STATELESS, source="socket", format="", paths=(), options={"host": "one", "port": "9999"}
)
OWN: Final = b.with_source(STATELESS, source="weather", format="", paths=(), options={})
QUEUE: Final = b.with_source(STATELESS, source="kafka-share", format="", paths=(), options={})
SHARED: Final = b.with_source(
    STATELESS, source="weather", format="", paths=(), options={"kafka.share.group.id": "g"}
)
INFERRED: Final = b.with_source(STATELESS, inferred=True)
CSV: Final = b.with_source(STATELESS, format="csv")
BROKERS: Final = {"kafka.bootstrap.servers": "one:9092"}
REAL_TIME_BEFORE: Final = replace(
    b.with_source(STATELESS, source="kafka", format="", paths=("subscribe a",), options=BROKERS),
    sink=b.a_sink("kafka", "key string, value string", target="t", options=BROKERS),
    output_mode="update",
)
TO_KAFKA: Final = replace(
    STATELESS, sink=b.a_sink("kafka", "key string, value string", target="t", options=BROKERS)
)
TO_FUNCTION: Final = replace(
    STATELESS, sink=b.a_sink("foreachbatch", options={"function": "write"})
)
TO_CONSOLE: Final = replace(STATELESS, sink=b.a_sink("console"))
TO_CSV: Final = b.with_sink(STATELESS, format="csv")
TO_CUSTOM: Final = replace(STATELESS, sink=b.a_sink("delta", target="/table"))
NAMED: Final = replace(
    STATELESS, sources=(b.a_source(name="a"), b.a_source(name="b", paths=("/b",)))
)
TWO: Final = replace(STATELESS, sources=(b.a_source(), b.a_source(paths=("/b",))))
UPDATE: Final = replace(AGG, output_mode="update", sink=b.a_sink("foreachbatch"))
DEDUP_OPERATOR: Final = DEDUP.operators[0]
BEFORE: Final = b.with_steps(
    AGG, ("project", "k, total, lines", 0), ("project", "k, v, ts", 1), ("filter", "(v > 0)", 1)
)

ABOVE: Final = (
    ("project", "k, total, lines", 0),
    ("project", "k, v, ts", 1),
    ("filter", "(v > 0)", 1),
)
ENDLESS: Final = b.with_steps(
    b.with_operator(
        UPDATE, window_us=(), keys=b.columns("k string"), key_expressions=("k",), ends=False
    ),
    ("filter", "(v > 0)", 1),
)


def drop_source(plan: QueryPlan) -> QueryPlan:
    return replace(plan, sources=plan.sources[:1])


def swap(plan: QueryPlan) -> QueryPlan:
    return replace(plan, sources=plan.sources[::-1])


def delay(plan: QueryPlan, seconds: int) -> QueryPlan:
    return replace(plan, watermarks=(WatermarkPlan(column="ts", delay_ms=seconds * 1000),))


def schema(plan: QueryPlan, text: str) -> QueryPlan:
    return b.with_source(plan, schema=b.columns(text))


def output(plan: QueryPlan, text: str) -> QueryPlan:
    return b.with_sink(plan, schema=b.columns(text))


def keys(text: str, *expressions: str) -> dict[str, object]:
    return {
        "keys": (Column(name="window", type=b.WINDOW), *b.columns(text)),
        "key_expressions": ("window(ts, 20 seconds)", *expressions),
    }
