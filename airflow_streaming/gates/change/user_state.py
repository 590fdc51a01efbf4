"""
State of the user's own functions, and state variables of transformWithState.

In Python they are made while the query runs, so most plans do not show them; the checkpoint does.
Where both are known they are compared, and what Spark relaxes is relaxed: variables may come and
go, and with Avro encoding the fields of one may come, go, change places and become wider.

The function may change, and what that means for the state it finds is its author's affair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.checkpoints.read.report import Checkpoint
from airflow_streaming.gates.change.pair import Pair, plain_type, shown, signature
from airflow_streaming.gates.findings import GateFinding
from airflow_streaming.gates.rules import Rule, rule_named
from airflow_streaming.gates.stored import StoreSchema
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """
    A state variable.

    :param sort: ``value``, ``list`` or ``map``.
    :param schema: As text; empty if unknown.
    :param life: How long a value lives, as text; empty if unknown.
    """

    sort: str
    schema: str = ""
    has_ttl: bool = False
    life: str = ""

    @property
    def plain(self) -> str:
        """Return the schema without regard to spaces and the case of its letters."""
        text = " ".join(self.schema.replace(":", " ").split()).lower()
        return f" {_BEFORE_VALUE} ".join(map(_spelled, text.split(_BEFORE_VALUE)))

    @property
    def text(self) -> str:
        """Return it for readers."""
        ttl = " with a time to live" if self.has_ttl else ""
        return f"{self.sort} ({self.schema or 'schema not told'}){ttl}"


_BEFORE_VALUE: Final = "->"
"""Between the key and the value of a map."""


def _spelled(schema: str) -> str:
    """Return a schema with the short names of its types; as it is where it is nested."""
    fields = _simple_fields(schema)
    return schema.strip() if fields is None else ", ".join(" ".join(one) for one in fields.items())


ENCODING: Final = "spark.sql.streaming.stateStore.encodingFormat"
_VARIABLE: Final = re.compile(
    r"\s*(?P<sort>\w+) (?P<name>\S+) \((?P<schema>.*)\)(?P<ttl>.*)", re.DOTALL
)


def judge_variables(pair: Pair, number: int) -> Iterator[GateFinding]:
    """Compare the state variables of an operator by its number."""
    before = variables_in(pair.old.operators[number].state_schema)
    after = variables_in(pair.new.operators[number].state_schema)
    if not before and pair.checkpoint is not None:
        # A driver does not ask for them, so of a stream that runs the checkpoint alone knows them.
        before = variables_of(pair.checkpoint, number, pair.schemas)
    is_whole = bool(before) and all(each.schema for each in before.values())
    evidence = pair.shown_by_state(number)
    if after and before:
        yield from compare_variables(
            before,
            after,
            encoding=pair.pinned(ENCODING) or "",
            evidence=evidence,
            about=(f"operators[{number}].state_schema",),
        )
    same = pair.same_code or same_body(pair, number)
    if not (after and is_whole) and not same:
        yield NOT_SEEN.found(evidence=evidence)


def compare_variables(
    before: Mapping[str, Variable],
    after: Mapping[str, Variable],
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


def variables_in(text: str) -> dict[str, Variable]:
    """Return variables by name from a text like ``value total (n bigint); list seen (k string)``."""
    found = {}
    for part in text.split(";"):
        match = _VARIABLE.fullmatch(part.strip())
        if match is not None:
            found[match["name"]] = Variable(
                sort=match["sort"].lower(),
                schema=match["schema"],
                has_ttl=bool(match["ttl"].strip()),
                life=match["ttl"].partition(" of ")[2].strip(),
            )
    return found


def variables_of(
    checkpoint: Checkpoint, number: int, schemas: Sequence[StoreSchema] = ()
) -> dict[str, Variable]:
    """
    Return the state variables in an operator's metadata, without Spark's own.

    :param schemas: Columns of the checkpoint's state; they give the schemas, except for a variable
        with a time to live.
    """
    stored = {each.store.rpartition("/")[2]: each for each in schemas if each.operator == number}
    found = {}
    for operator in (each for each in checkpoint.operators if each.id == number):
        told = operator.state.get("stateVariables")
        for one in told if isinstance(told, list) else []:
            if isinstance(one, Mapping) and not is_of_spark(str(one.get("stateName"))):
                name, has_ttl = str(one.get("stateName")), bool(one.get("ttlEnabled"))
                sort = str(one.get("stateVariableType")).removesuffix("State").lower()
                schema = _stored_schema(sort, stored[name]) if name in stored else ""
                found[name] = Variable(sort=sort, schema="" if has_ttl else schema, has_ttl=has_ttl)
    return found


_USER_KEY: Final = "userKey"
_STRUCT: Final = re.compile(r"struct<(?P<fields>.*)>", re.DOTALL)


def _stored_schema(sort: str, stored: StoreSchema) -> str:
    value = ", ".join(f"{column.name} {column.type}" for column in stored.value)
    if sort != "map":
        return value
    own = [column.type for column in stored.key if column.name == _USER_KEY]
    key = _STRUCT.fullmatch(own[0]) if own else None
    return f"{key['fields'].replace(':', ' ')} {_BEFORE_VALUE} {value}" if key else ""


def _renamed(before: Mapping[str, Variable], after: Mapping[str, Variable]) -> dict[str, str]:
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


def _is_alike(was: Variable, now: Variable) -> bool:
    same_schema = "" in (was.schema, now.schema) or was.plain == now.plain
    return (was.sort, was.has_ttl) == (now.sort, now.has_ttl) and same_schema


def _rule(was: Variable | None, now: Variable | None, encoding: str) -> Rule | None:
    if was is None:
        return ADDED
    if now is None:
        return REMOVED
    if (was.sort, was.has_ttl) != (now.sort, now.has_ttl):
        return CHANGED
    if was.life != now.life and was.life and now.life:
        return LIFE
    if "" in (was.schema, now.schema) or was.plain == now.plain:
        return None
    return evolution(was.plain, now.plain) if encoding.lower() == "avro" else CHANGED


_FIELD: Final = re.compile(r"(?P<name>\S+) (?P<type>\S+)")
_REQUIRED: Final = " not null"
"""Spark takes no such field in Avro-encoded state."""
_NESTED: Final = frozenset("<>()")
_WIDER: Final = frozenset({("int", "bigint"), ("bigint", "double")})
"""Measured on 4.3.0: old values are read as the wider type."""
_NUMBERS: Final = frozenset({"tinyint", "smallint", "int", "bigint", "float", "double"})
_AVRO_WIDER: Final = frozenset(
    {("int", "float"), ("int", "double"), ("bigint", "float"), ("float", "double")}
)
"""Type changes that Avro reads as well; not tried on state."""


def evolution(was: str, now: str) -> Rule:
    """
    Return what Spark makes of another schema of a variable whose values are encoded with Avro.

    :param was: As text in small letters, e.g. ``n bigint, m int``; of a map ``key -> value``.
    """
    old_key, _, old = was.rpartition(_BEFORE_VALUE)
    new_key, _, new = now.rpartition(_BEFORE_VALUE)
    # A key is found by its bytes.
    if old_key.strip() != new_key.strip() or _REQUIRED in new:
        return CHANGED
    before, after = _simple_fields(old), _simple_fields(new)
    if before is None or after is None:
        return UNMEASURED
    gone, come = before.keys() - after.keys(), after.keys() - before.keys()
    others = {(before[name], after[name]) for name in before.keys() & after.keys()}
    retyped = {pair for pair in others if pair[0] != pair[1]} - _WIDER
    if retyped - _AVRO_WIDER:
        return CHANGED
    if {_kind(before[name]) for name in gone} & {_kind(after[name]) for name in come}:
        return FIELD_RENAMED
    return UNMEASURED if retyped else EVOLVED


def _kind(type_: str) -> str:
    """Return the kind of a field's values, so that a renamed and widened field is found again."""
    return "number" if type_ in _NUMBERS else type_


def _simple_fields(schema: str) -> dict[str, str] | None:
    """Return types by field; nothing where one is nested or cannot be read."""
    fields: dict[str, str] = {}
    for text in schema.split(","):
        found = None if _NESTED & set(text) else _FIELD.fullmatch(text.strip())
        if found is None:
            return None
        fields[found["name"]] = plain_type(found["type"])
    return fields


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
    )
    for rule, was, now in texts:
        if plain(was) != plain(now):
            about = (f"operators[{number}].output_schema",) if rule is OUTPUT else ()
            yield rule.found(old=was, new=now, evidence=evidence, about=about)
    if old.sort is OperatorKind.TRANSFORM_WITH_STATE:
        yield from judge_variables(pair, number)
    elif plain(old.state_schema) != plain(new.state_schema):
        yield _judge_schema(pair, number, evidence)
    yield from _judge_function(pair, number)


_NODE: Final = "FlatMapGroupsInPandasWithState"


def _judge_schema(pair: Pair, number: int, evidence: str) -> GateFinding:
    was, now = pair.old.operators[number].state_schema, pair.new.operators[number].state_schema
    before, after = _field_types(was), _field_types(now)
    if not before or before != after or not same_body(pair, number):
        return SCHEMA.found(old=was, new=now, evidence=evidence)
    return FIELDS_RENAMED.found(
        old=was,
        new=now,
        evidence=evidence,
        about=(f"operators[{number}].state_schema", f"nodes[{number}].{_NODE}"),
    )


def _field_types(schema: str) -> tuple[str, ...]:
    """Return the types of fields, none of them nested; nothing where one is, or cannot be read."""
    fields = [field.split() for field in schema.split(",")]
    if any(len(field) != 2 or "<" in field[1] for field in fields):
        return ()
    return tuple(plain_type(field[1]) for field in fields)


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
    is_untold = old.sort is OperatorKind.TRANSFORM_WITH_STATE and not old.state_schema
    return (f"{at}.state_schema",) if is_untold else ()


def same_body(pair: Pair, number: int) -> bool:
    """Return whether an operator's function, and all code it reaches, is known to be the same."""
    return pair.same_body(pair.old.operators[number].code, pair.new.operators[number].code)


def plain(text: str) -> str:
    """Return a text without regard to spaces and the case of its letters."""
    return " ".join(text.split()).lower()
