"""
Deduplication: by which columns rows are held equal, and in which order they are written down.

The order is that of the state's key, from Spark 4.3 on in every case. Two columns of one type that
change places make every row look new, and Spark does not notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.change.columns import shown, signature
from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule

_GUIDE: Final = "Structured Streaming guide, recovery semantics: streaming deduplication"
_ANEW: Final = "Start with a new checkpoint (blue-green); rows seen before may come once more."

COLUMNS: Final = Rule(
    name="deduplication.columns",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The columns that rows are deduplicated by must keep their number, types and names.",
    source=f"{_GUIDE}; measured: STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    remedy=_ANEW,
)
ORDER: Final = Rule(
    name="deduplication.order",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The columns that rows are deduplicated by must keep their order: it "
    "is that of the state's key.",
    source="SPARK-57489; measured: STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE, or rows taken for new",
    remedy="Write the columns in the order they had.",
)
RULES: Final = (COLUMNS, ORDER)


def judge_deduplication(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare a deduplication by its number."""
    old, new = pair.old.operators[number], pair.new.operators[number]
    before, after = signature(old.keys), signature(new.keys)
    if before == after and old.key_expressions == new.key_expressions:
        return
    rule = ORDER if sorted(before) == sorted(after) else COLUMNS
    yield rule.found(old=shown(old.keys), new=shown(new.keys), evidence=pair.shown_by_state(number))
