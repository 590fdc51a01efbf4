"""
State of the user's own functions, and state variables of transformWithState.

In Python they are made while the query runs, so most plans do not show them; the checkpoint does.
Where both are known they are compared, and what Spark relaxes is relaxed: variables may come and
go, and with Avro encoding the fields of one may come, go, change places and become wider.

The function may change, and what that means for the state it finds is its author's affair.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.change.pair import Pair, plain_type, shown, signature
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.gates.stored import StoreSchema
from airflow_streaming.model.plan.schema import Column, fields_of
from airflow_streaming.model.plan.variables import StateVariable
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, is_of_spark

ADDED: Final = rule_named("variable.added")
REMOVED: Final = rule_named("variable.removed")
RENAMED: Final = rule_named("variable.renamed")
CHANGED: Final = rule_named("variable.changed")
EVOLVED: Final = rule_named("variable.evolved")
FIELD_RENAMED: Final = rule_named("variable.field_renamed")
UNMEASURED: Final = rule_named("variable.evolution_unmeasured")
LIFE: Final = rule_named("variable.time_to_live")
NOT_SEEN: Final = rule_named("variable.not_seen")
VARIABLE_RULES: Final = (
    *(ADDED, REMOVED, RENAMED, CHANGED, EVOLVED, FIELD_RENAMED, UNMEASURED, LIFE, NOT_SEEN),
)

ENCODING: Final = "spark.sql.streaming.stateStore.encodingFormat"
Variables = Mapping[str, StateVariable]
"""State variables by name."""

_USER_KEY: Final = "userKey"
_Columns = tuple[Column, ...]

_NESTED: Final = frozenset("<>()")
_WIDER: Final = frozenset({("int", "bigint"), ("bigint", "double")})
"""Measured on 4.3.0: old values are read as the wider type."""
_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
_AVRO_WIDER: Final = frozenset(
    {("int", "float"), ("int", "double"), ("bigint", "float"), ("float", "double")}
)
"""Type changes that Avro reads as well; not tried on state."""

KEYS: Final = rule_named("user_state.keys")
SCHEMA: Final = rule_named("user_state.schema")
FIELDS_RENAMED: Final = rule_named("user_state.fields_renamed")
TIMEOUT: Final = rule_named("user_state.timeout")
TIME_MODE: Final = rule_named("user_state.time_mode")
OUTPUT: Final = rule_named("user_state.output")
FUNCTION: Final = rule_named("user_state.function")
NAME: Final = rule_named("user_state.function_name")
BODY: Final = rule_named("user_state.function_body")
RULES: Final = (KEYS, SCHEMA, FIELDS_RENAMED, TIMEOUT, TIME_MODE, OUTPUT, FUNCTION, NAME, BODY)

_NODE: Final = "FlatMapGroupsInPandasWithState"


def judge_variables(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare the state variables of an operator by its number."""
    before, after = (by_name(plan.operators[number].variables) for plan in (pair.old, pair.new))
    if not before and pair.checkpoint is not None:
        # A driver does not ask for them, so of a stream that runs the checkpoint alone knows them.
        before = variables_of(pair.checkpoint, number, pair.schemas)
    is_whole = bool(before) and all(each.value for each in before.values())
    evidence = pair.shown_by_state(number)
    if after and before:
        yield from compare_variables(
            before,
            after,
            encoding=pair.pinned(ENCODING) or "",
            evidence=evidence,
            about=(f"operators[{number}].variables",),
        )
    same = pair.same_code or same_body(pair, number)
    if not (after and is_whole) and not same:
        yield NOT_SEEN.found(evidence=evidence)


def compare_variables(
    before: Variables,
    after: Variables,
    *,
    encoding: str,
    evidence: str,
    about: tuple[str, ...] = (),
) -> Iterator[GateFinding]:
    """Compare state variables by name, as far as both are known."""
    renamed = _renamed(before, after)
    for old, new in renamed.items():
        yield RENAMED.found(
            f"State variable {old} is {new} now. {RENAMED.sentence}",
            old=f"{old}: {before[old].text}",
            new=f"{new}: {after[new].text}",
            evidence=evidence,
        )
    for name in sorted({*before, *after} - {*renamed, *renamed.values()}):
        was, now = before.get(name), after.get(name)
        rule = _rule(was, now, encoding)
        if rule is not None:
            yield rule.found(
                f"State variable {name}: {rule.sentence}",
                old=was.text if was else "none",
                new=now.text if now else "none",
                evidence=evidence,
                about=about,
            )


def by_name(variables: Iterable[StateVariable]) -> dict[str, StateVariable]:
    return {one.name: one for one in variables}


def variables_of(
    checkpoint: Checkpoint, number: int, schemas: Sequence[StoreSchema] = ()
) -> dict[str, StateVariable]:
    """
    Return the state variables in an operator's metadata, without Spark's own.

    :param schemas: Columns of the checkpoint's state; they give the schemas, except for a variable
        with a time to live.
    """
    stored = {each.store.rpartition("/")[2]: each for each in schemas if each.operator == number}
    found = {}
    for operator in (each for each in checkpoint.operators if each.id == number):
        variables = operator.state.get("stateVariables")
        for one in variables if isinstance(variables, list) else []:
            if isinstance(one, Mapping) and not is_of_spark(str(one.get("stateName"))):
                name, has_ttl = str(one.get("stateName")), bool(one.get("ttlEnabled"))
                sort = str(one.get("stateVariableType")).removesuffix("State").lower()
                key, value = ((), ()) if has_ttl else _stored_columns(sort, stored.get(name))
                found[name] = StateVariable(
                    kind=sort, name=name, key=key, value=value, has_ttl=has_ttl
                )
    return found


def evolution(was: StateVariable, now: StateVariable) -> Rule:
    """Return what Spark makes of other columns of a variable whose values are encoded with Avro."""
    # A key is found by its bytes, and Spark takes no column that must not be null.
    if _plain(was.key) != _plain(now.key) or not all(column.nullable for column in now.value):
        return CHANGED
    before, after = dict(_plain(was.value)), dict(_plain(now.value))
    if any(_NESTED & {*of} or not of for of in (*before.values(), *after.values())):
        return UNMEASURED
    gone, come = before.keys() - after.keys(), after.keys() - before.keys()
    others = {(before[name], after[name]) for name in before.keys() & after.keys()}
    retyped = {pair for pair in others if pair[0] != pair[1]} - _WIDER
    if retyped - _AVRO_WIDER:
        return CHANGED
    if {_kind(before[name]) for name in gone} & {_kind(after[name]) for name in come}:
        return FIELD_RENAMED
    return UNMEASURED if retyped else EVOLVED


def judge_user_state(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare an operator with a user's function by its number."""
    old, new = pair.old.operators[number], pair.new.operators[number]
    evidence = pair.shown_by_state(number)
    if (signature(old.keys), old.key_expressions) != (signature(new.keys), new.key_expressions):
        yield KEYS.found(old=shown(old.keys), new=shown(new.keys), evidence=evidence)
    texts = (
        (TIMEOUT, old.timeout, new.timeout),
        (TIME_MODE, old.time_mode, new.time_mode),
    )
    for rule, was, now in texts:
        if plain(was) != plain(now):
            yield rule.found(old=was, new=now, evidence=evidence)
    if _plain(old.output_columns) != _plain(new.output_columns):
        yield OUTPUT.found(
            old=shown(old.output_columns),
            new=shown(new.output_columns),
            evidence=evidence,
            about=(f"operators[{number}].output_columns",),
        )
    if old.sort is OperatorKind.TRANSFORM_WITH_STATE:
        yield from judge_variables(pair, number)
    elif _plain(old.state_columns) != _plain(new.state_columns):
        yield _judge_schema(pair, number, evidence)
    yield from _judge_function(pair, number)


def same_body(pair: Pair, number: int) -> bool:
    """Return whether an operator's function, and all code it reaches, is known to be the same."""
    return pair.same_body(pair.old.operators[number].code, pair.new.operators[number].code)


def plain(text: str) -> str:
    """Return a text without regard to spaces and the case of its letters."""
    return " ".join(text.split()).lower()


def _stored_columns(kind: str, stored: StoreSchema | None) -> tuple[_Columns, _Columns]:
    """Return the columns of a variable's keys and values; nothing where they are not known."""
    if stored is None:
        return (), ()
    if kind != "map":
        return (), stored.value
    own = [column.type for column in stored.key if column.name == _USER_KEY]
    key = fields_of(own[0]) if own else ()
    return (key, stored.value) if key else ((), ())


def _renamed(before: Variables, after: Variables) -> dict[str, str]:
    # A removed variable beside a similar new one counts as renamed.
    come = [name for name in after if name not in before]
    found: dict[str, str] = {}
    for name, was in before.items():
        alike = (new for new in come if name not in after and _is_alike(was, after[new]))
        new = next(alike, None)
        if new is not None:
            found[name] = new
            come.remove(new)
    return found


def _is_alike(was: StateVariable, now: StateVariable) -> bool:
    return (was.kind, was.has_ttl) == (now.kind, now.has_ttl) and _same_schema(was, now)


def _same_schema(was: StateVariable, now: StateVariable) -> bool:
    """Tell whether two variables have the same columns, as far as both are known."""
    is_known = bool(was.value and now.value)
    return not is_known or (_plain(was.key), _plain(was.value)) == (
        _plain(now.key),
        _plain(now.value),
    )


def _plain(columns: Iterable[Column]) -> list[tuple[str, str]]:
    return [(column.name.lower(), plain_type(column.type).lower()) for column in columns]


def _rule(was: StateVariable | None, now: StateVariable | None, encoding: str) -> Rule | None:
    if was is None:
        return ADDED
    if now is None:
        return REMOVED
    if (was.kind, was.has_ttl) != (now.kind, now.has_ttl):
        return CHANGED
    if was.ttl_ms != now.ttl_ms and was.ttl_ms and now.ttl_ms:
        return LIFE
    if _same_schema(was, now):
        return None
    return evolution(was, now) if encoding.lower() == "avro" else CHANGED


def _kind(type_: str) -> str:
    """Return the kind of a field's values, so that a renamed and widened field is found again."""
    return "number" if type_ in _NUMBERS else type_


def _judge_schema(pair: Pair, number: int, evidence: str) -> GateFinding:
    was, now = pair.old.operators[number].state_columns, pair.new.operators[number].state_columns
    before, after = _simple_types(was), _simple_types(now)
    if not before or before != after or not same_body(pair, number):
        return SCHEMA.found(old=shown(was), new=shown(now), evidence=evidence)
    return FIELDS_RENAMED.found(
        old=shown(was),
        new=shown(now),
        evidence=evidence,
        about=(f"operators[{number}].state_columns", f"nodes[{number}].{_NODE}"),
    )


def _simple_types(columns: Sequence[Column]) -> tuple[str, ...]:
    """Return the types of columns; nothing where one of them is nested."""
    types = tuple(plain_type(column.type) for column in columns)
    return () if any("<" in one for one in types) else types


def _judge_function(pair: Pair, number: int) -> Iterator[GateFinding]:
    old, new = pair.old.operators[number], pair.new.operators[number]
    at = f"operators[{number}]"
    evidence = f"operator {number} in {pair.shown_by_plan}"
    if same_body(pair, number):
        if not pair.same_code and old.function != new.function:
            yield NAME.found(
                old=old.function, new=new.function, evidence=evidence, about=(f"{at}.function",)
            )
        return
    rule = FUNCTION if (old.code and new.code) or old.function != new.function else BODY
    yield rule.found(
        old=f"{old.function} {old.code}",
        new=f"{new.function} {new.code}",
        evidence=evidence,
        about=(f"{at}.function", f"{at}.code", f"nodes[{number}].*", *_untold(old, at)),
    )


def _untold(old: OperatorPlan, at: str) -> tuple[str, ...]:
    # A driver's plan has no variables; the new ones were compared with the checkpoint's.
    is_untold = old.sort is OperatorKind.TRANSFORM_WITH_STATE and not old.variables
    return (f"{at}.variables",) if is_untold else ()
