"""Edits of deduplications, joins, and state of the user's own."""

from __future__ import annotations

from typing import Final

from tests.unit.gates.change import builders as b
from tests.unit.gates.change.edit import DEDUP, GROUPS, JOIN, NO, TOLD, TWS, UNKNOWN, YES, edit_of

UNTOLD: Final = b.with_operator(TWS, variables=())
"""As a driver records it: its processor is asked in plan mode alone."""
STATE: Final = (
    edit_of(
        "another column to deduplicate by",
        DEDUP,
        b.a_deduplication("k string, ts timestamp"),
        "deduplication.columns",
        NO,
    ),
    edit_of(
        "columns to deduplicate by swapped",
        DEDUP,
        b.a_deduplication("v bigint, k string"),
        "deduplication.order",
        NO,
    ),
    edit_of(
        "inner to left outer",
        JOIN,
        b.with_operator(JOIN, join_type="left_outer"),
        "join.type",
        NO,
    ),
    edit_of(
        "a join key more",
        JOIN,
        b.with_operator(
            JOIN, keys=b.columns("k string, v bigint"), key_expressions=("k@0 = k@1", "v@0 = v@1")
        ),
        "join.keys",
        NO,
    ),
    edit_of(
        "another time bound",
        JOIN,
        b.with_operator(JOIN, condition="((k@0 = k@1) AND (ts@1 < (ts@0 + interval 9 seconds)))"),
        "join.condition",
        NO,
    ),
    edit_of(
        "sides swapped",
        b.with_operator(JOIN, left=b.columns("k string, v bigint")),
        b.with_operator(JOIN, right=b.columns("k string, v bigint")),
        "join.sides",
        NO,
    ),
    edit_of(
        "a column of a side less",
        JOIN,
        b.with_operator(JOIN, right=b.columns("k string, ts timestamp")),
        "join.schema",
        NO,
    ),
    edit_of(
        "another side's column read",
        JOIN,
        b.with_steps(JOIN, ("project", "k@0, v@0", 0)),
        "join.used",
        NO,
    ),
    edit_of(
        "a function behind a join",
        JOIN,
        b.with_steps(JOIN, ("map", "f(k)", 0)),
        "join.used_unknown",
        UNKNOWN,
    ),
    edit_of(
        "a field of the state more",
        GROUPS,
        b.with_operator(GROUPS, state_schema="n bigint, m int"),
        "user_state.schema",
        NO,
    ),
    edit_of(
        "another name of a field of the state",
        GROUPS,
        b.with_operator(GROUPS, state_schema="m bigint"),
        "user_state.fields_renamed",
        YES,
    ),
    edit_of(
        "another name of a field within a field of the state",
        b.with_operator(GROUPS, state_schema="n struct<a:bigint>"),
        b.with_operator(GROUPS, state_schema="n struct<b:bigint>"),
        "user_state.schema",
        NO,
    ),
    edit_of(
        "another name of a field of the state, and another function",
        GROUPS,
        b.with_operator(GROUPS, state_schema="m bigint", code="other"),
        "user_state.schema",
        NO,
    ),
    edit_of(
        "another timeout",
        GROUPS,
        b.with_operator(GROUPS, timeout="EventTimeTimeout"),
        "user_state.timeout",
        NO,
    ),
    edit_of(
        "another key of the state",
        GROUPS,
        b.with_operator(GROUPS, keys=b.columns("v bigint"), key_expressions=("v",)),
        "user_state.keys",
        NO,
    ),
    edit_of(
        "another result of the function",
        GROUPS,
        b.with_operator(GROUPS, output_schema="k string"),
        "user_state.output",
        TOLD,
    ),
    edit_of(
        "another stateful function",
        GROUPS,
        b.with_operator(GROUPS, function="count_down", code="other"),
        "user_state.function",
        UNKNOWN,
    ),
    edit_of(
        "another name of the stateful function",
        GROUPS,
        b.with_operator(GROUPS, function="count_down"),
        "user_state.function_name",
        YES,
    ),
    edit_of(
        "a stateful function whose body was not recorded",
        b.with_operator(GROUPS, code=""),
        GROUPS,
        "user_state.function_body",
        UNKNOWN,
    ),
    edit_of(
        "a shorter time to live",
        b.with_operator(TWS, state_schema="value total (n bigint) with a time to live of 9000 ms"),
        b.with_operator(TWS, state_schema="value total (n bigint) with a time to live of 10 ms"),
        "variable.time_to_live",
        UNKNOWN,
    ),
    edit_of(
        "a variable more",
        TWS,
        b.with_operator(
            TWS, state_schema="list seen (k string); value total (n bigint); map m (a int)"
        ),
        "variable.added",
        TOLD,
    ),
    edit_of(
        "a variable less",
        TWS,
        b.with_operator(TWS, state_schema="value total (n bigint)"),
        "variable.removed",
        TOLD,
    ),
    edit_of(
        "a variable renamed",
        TWS,
        b.with_operator(TWS, state_schema="list seen (k string); value sum (n bigint)"),
        "variable.renamed",
        NO,
    ),
    edit_of(
        "value to list",
        TWS,
        b.with_operator(TWS, state_schema="list seen (k string); list total (n bigint)"),
        "variable.changed",
        NO,
    ),
    edit_of(
        "a field of a variable more",
        TWS,
        b.with_operator(TWS, state_schema="list seen (k string); value total (n bigint, m int)"),
        "variable.changed",
        NO,
    ),
    edit_of(
        "a field more with Avro",
        b.with_conf(TWS, {"spark.sql.streaming.stateStore.encodingFormat": "avro"}),
        b.with_conf(
            b.with_operator(
                TWS, state_schema="list seen (k string); value total (n bigint, m int)"
            ),
            {"spark.sql.streaming.stateStore.encodingFormat": "avro"},
        ),
        "variable.evolved",
        TOLD,
    ),
    edit_of(
        "a field renamed with Avro",
        b.with_conf(TWS, {"spark.sql.streaming.stateStore.encodingFormat": "avro"}),
        b.with_conf(
            b.with_operator(TWS, state_schema="list seen (k string); value total (m bigint)"),
            {"spark.sql.streaming.stateStore.encodingFormat": "avro"},
        ),
        "variable.field_renamed",
        NO,
    ),
    edit_of(
        "a field narrower with Avro",
        b.with_conf(TWS, {"spark.sql.streaming.stateStore.encodingFormat": "avro"}),
        b.with_conf(
            b.with_operator(TWS, state_schema="list seen (k string); value total (n int)"),
            {"spark.sql.streaming.stateStore.encodingFormat": "avro"},
        ),
        "variable.changed",
        NO,
    ),
    edit_of(
        "a field of Avro's that nobody tried",
        b.with_conf(TWS, {"spark.sql.streaming.stateStore.encodingFormat": "avro"}),
        b.with_conf(
            b.with_operator(TWS, state_schema="list seen (k string); value total (n float)"),
            {"spark.sql.streaming.stateStore.encodingFormat": "avro"},
        ),
        "variable.evolution_unmeasured",
        UNKNOWN,
    ),
    edit_of(
        "a column in front of a processor whose variables no driver tells",
        b.with_steps(UNTOLD, ("project", "k, (v + 1) AS v", 1)),
        b.with_steps(UNTOLD, ("project", "k, (v + 2) AS v", 1)),
        "step.column_before_state",
        NO,
    ),
    edit_of(
        "variables that nobody sees",
        TWS,
        b.with_operator(TWS, variables=(), code=""),
        "variable.not_seen",
        UNKNOWN,
    ),
    edit_of(
        "another time mode",
        TWS,
        b.with_operator(TWS, time_mode="EventTime"),
        "user_state.time_mode",
        NO,
    ),
)
