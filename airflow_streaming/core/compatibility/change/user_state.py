"""
State of the user's own functions: its schema, its timeout, its keys; and the function itself.

The function may change, and what that means for the state it finds is its author's affair.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from airflow_streaming.core.compatibility.change.columns import shown, signature
from airflow_streaming.core.compatibility.change.pair import Pair
from airflow_streaming.core.compatibility.change.variables import judge_variables
from airflow_streaming.core.compatibility.finding import GateDecision, GateFinding
from airflow_streaming.core.compatibility.rules import Rule
from airflow_streaming.core.plan.plan import OperatorSort

_GUIDE: Final = "Structured Streaming guide, recovery semantics: arbitrary stateful operation"
_ANEW: Final = "Start with a new checkpoint (blue-green), which makes the state anew."

KEYS: Final = Rule(
    name="user_state.keys",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The keys that the user's state is kept by must stay.",
    source="measured: STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE, or another key of the same type",
    remedy=_ANEW,
)
SCHEMA: Final = Rule(
    name="user_state.schema",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The schema of the user's state must stay.",
    source=f"{_GUIDE}; measured: STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    remedy=f"{_ANEW} transformWithState with Avro encoding can change its schema.",
)
TIMEOUT: Final = Rule(
    name="user_state.timeout",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The type of the timeout must stay.",
    source=f"{_GUIDE}; measured: STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    remedy=_ANEW,
)
TIME_MODE: Final = Rule(
    name="user_state.time_mode",
    severity=GateDecision.NOT_ALLOWED,
    sentence="The time mode of transformWithState must stay.",
    source="measured: STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    remedy=_ANEW,
)
OUTPUT: Final = Rule(
    name="user_state.output",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="What the user's function returns may change, where whatever follows takes it.",
    source=_GUIDE,
)
FUNCTION: Final = Rule(
    name="user_state.function",
    severity=GateDecision.ALLOWED_WITH_CONSEQUENCE,
    sentence="The user's function may change; it finds the state that the old one left, and rows "
    "already written are not revised.",
    source=_GUIDE,
)
BODY: Final = Rule(
    name="user_state.function_body",
    severity=GateDecision.ALLOWED,
    sentence="The user's function may change. No plan shows what it does, so see yourself that it "
    "goes well with the state that the old one left.",
    source=_GUIDE,
)

RULES: Final = (KEYS, SCHEMA, TIMEOUT, TIME_MODE, OUTPUT, FUNCTION, BODY)


def judge_user_state(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare an operator with a user's function by its number."""
    old, new = pair.old.operators[number], pair.new.operators[number]
    evidence = pair.shown_by_state(number)
    if (signature(old.keys), old.key_expressions) != (signature(new.keys), new.key_expressions):
        yield KEYS.found(old=shown(old.keys), new=shown(new.keys), evidence=evidence)
    texts = (
        (TIMEOUT, old.timeout, new.timeout),
        (TIME_MODE, old.time_mode, new.time_mode),
        (OUTPUT, old.output_schema, new.output_schema),
        (FUNCTION, old.function, new.function),
    )
    for rule, was, now in texts:
        if plain(was) != plain(now):
            yield rule.found(old=was, new=now, evidence=evidence)
    if old.sort is OperatorSort.TRANSFORM_WITH_STATE:
        yield from judge_variables(pair, number)
    elif plain(old.state_schema) != plain(new.state_schema):
        yield SCHEMA.found(old=old.state_schema, new=new.state_schema, evidence=evidence)
    if old.function == new.function and not pair.same_code:
        yield BODY.found(evidence=pair.shown_by_plan)


def plain(text: str) -> str:
    """Return a text without regard to spaces and the case of its letters."""
    return " ".join(text.split()).lower()
