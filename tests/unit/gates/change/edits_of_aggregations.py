"""Edits of stateful operators as a whole, and of aggregations."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from airflow_streaming.model.spark.plan import OperatorKind
from tests.unit.gates.change import builders as b
from tests.unit.gates.change.edit import (
    AGG,
    DEDUP,
    DEDUP_OPERATOR,
    NO,
    SESSION,
    STATELESS,
    TOLD,
    UNKNOWN,
    edit_of,
    keys,
    output,
)

AGGREGATIONS: Final = (
    edit_of(
        "stateless to aggregation",
        STATELESS,
        replace(AGG, sink=STATELESS.sink),
        "operator.first",
        NO,
    ),
    edit_of(
        "aggregation to stateless", AGG, replace(AGG, operators=(), steps=()), "operator.last", NO
    ),
    edit_of(
        "a deduplication more",
        AGG,
        replace(AGG, operators=(*AGG.operators, DEDUP_OPERATOR)),
        "operator.added",
        NO,
    ),
    edit_of(
        "a deduplication less",
        replace(AGG, operators=(*AGG.operators, DEDUP_OPERATOR)),
        AGG,
        "operator.removed",
        NO,
    ),
    edit_of(
        "operators swapped",
        replace(AGG, operators=(*AGG.operators, DEDUP_OPERATOR)),
        replace(AGG, operators=(DEDUP_OPERATOR, *AGG.operators)),
        "operator.order",
        NO,
    ),
    edit_of(
        "aggregation to deduplication",
        AGG,
        replace(AGG, operators=(DEDUP_OPERATOR,)),
        "operator.sort",
        NO,
    ),
    edit_of(
        "window to session", AGG, replace(AGG, operators=SESSION.operators), "operator.sort", NO
    ),
    edit_of(
        "deduplication within the watermark",
        DEDUP,
        b.with_operator(DEDUP, sort=OperatorKind.DEDUPLICATE_WITHIN_WATERMARK),
        "operator.sort",
        NO,
    ),
    edit_of(
        "another limit",
        b.with_operator(DEDUP, sort=OperatorKind.LIMIT, values=("3",)),
        b.with_operator(DEDUP, sort=OperatorKind.LIMIT, values=("4",)),
        "operator.limit",
        NO,
    ),
    edit_of(
        "a strange operator",
        b.with_operator(DEDUP, sort=OperatorKind.OTHER),
        b.with_operator(DEDUP, sort=OperatorKind.OTHER, values=("x",)),
        "operator.other",
        UNKNOWN,
    ),
    edit_of(
        "an aggregate more",
        AGG,
        b.with_operator(
            AGG, values=("sum(v)", "count(1)", "max(v)"), outputs=("total", "lines", "k")
        ),
        "aggregation.aggregates",
        NO,
    ),
    edit_of(
        "an aggregate less",
        AGG,
        output(
            b.with_steps(
                b.with_operator(AGG, values=("sum(v)",), outputs=("total",)),
                ("project", "k, total", 0),
            ),
            "k string, total bigint",
        ),
        "aggregation.aggregates",
        NO,
    ),
    edit_of(
        "sum to average",
        AGG,
        b.with_operator(AGG, values=("avg(v)", "count(1)")),
        "aggregation.aggregates",
        NO,
    ),
    edit_of(
        "sum to maximum",
        AGG,
        b.with_operator(AGG, values=("max(v)", "count(1)")),
        "aggregation.aggregates",
        NO,
    ),
    edit_of(
        "double to long",
        b.with_operator(AGG, value_types=("double", "bigint")),
        AGG,
        "aggregation.types",
        NO,
    ),
    edit_of(
        "aggregates swapped",
        AGG,
        b.with_operator(
            b.with_steps(AGG, ("filter", "true", 0)),
            values=("count(1)", "sum(v)"),
            outputs=("lines", "total"),
        ),
        "aggregation.aggregates",
        NO,
    ),
    edit_of(
        "a dropped aggregate",
        AGG,
        output(b.with_steps(AGG, ("project", "k, total", 0)), "k string, total bigint"),
        "aggregation.used",
        NO,
    ),
    edit_of(
        "columns of an aggregation swapped",
        AGG,
        output(
            b.with_steps(AGG, ("project", "k, lines, total", 0)),
            "k string, lines bigint, total bigint",
        ),
        "aggregation.used",
        NO,
    ),
    edit_of(
        "a new name of an aggregate",
        AGG,
        output(
            b.with_steps(AGG, ("project", "k, total AS t, lines", 0)),
            "k string, t bigint, lines bigint",
        ),
        "projection.column_added",
        TOLD,
    ),
    edit_of(
        "behind aggregates without names",
        b.with_operator(AGG, outputs=()),
        b.with_steps(b.with_operator(AGG, outputs=()), ("project", "k", 0)),
        "aggregation.used_unknown",
        UNKNOWN,
    ),
    edit_of(
        "another type of key",
        AGG,
        b.with_operator(AGG, **keys("k int", "k")),
        "aggregation.keys",
        NO,
    ),
    edit_of(
        "a key more",
        AGG,
        b.with_operator(AGG, **keys("k string, v bigint", "k", "v")),
        "aggregation.keys",
        NO,
    ),
    edit_of(
        "another key of the same type",
        AGG,
        b.with_operator(AGG, **keys("k string", "upper(k)")),
        "aggregation.keys",
        NO,
    ),
    edit_of(
        "another window",
        AGG,
        b.with_operator(
            AGG,
            window_us=(30_000_000, 30_000_000, 0),
            key_expressions=("window(ts, 30 seconds)", "k"),
        ),
        "aggregation.window",
        NO,
    ),
    edit_of(
        "another session gap", SESSION, b.a_session("9 seconds"), "aggregation.session_gap", NO
    ),
)
