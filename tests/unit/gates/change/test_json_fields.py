"""One more text field of ``from_json``: harmless where the struct is taken apart by name alone."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.findings import GateDecision, worst
from airflow_streaming.model.plan.text import step_text
from airflow_streaming.model.spark.plan import NodePlan, OperatorKind, OperatorPlan, QueryPlan
from tests.system.edits.plans import Plans
from tests.trees import a_step, trees
from tests.unit.gates.change import builders as b

NO, TOLD, UNKNOWN = (
    GateDecision.NOT_ALLOWED,
    GateDecision.ALLOWED_WITH_CONSEQUENCE,
    GateDecision.UNKNOWN,
)
PERMISSIVE = "options.mode=PERMISSIVE; options.columnNameOfCorruptRecord=_corrupt; "
K, N, CORRUPT = "k string", "n integer", "_corrupt string"
COUPON = "coupon string"


class Script(NamedTuple):
    """What a script parses, and what it does with it."""

    fields: tuple[str, ...] = (K, N, CORRUPT)
    options: str = PERMISSIVE
    summed: str = "sum({call}.n)"
    kept: str = "is_null(_corrupt)"
    taken: tuple[str, ...] = ("k", "n", "_corrupt")
    named: str = "{call} AS o"
    sort: OperatorKind = OperatorKind.AGGREGATE
    step: str = "filter"
    struct: str = "o"

    def more(self, *fields: str, **other: Any) -> Script:
        """Return the script with more fields in front of the last one."""
        return self._replace(fields=(*self.fields[:-1], *fields, self.fields[-1]), **other)


def call(script: Script) -> str:
    def field(text: str) -> dict[str, Any]:
        name, of, *more = text.split(" ", 2)
        told = {"metadata": {}, "name": name, "nullable": True, "type": of}
        return {**told, **(json.loads(more[0]) if more else {})}

    schema = json.dumps({"fields": [field(one) for one in script.fields], "type": "struct"})
    return f"json_to_structs(value)['{script.options}schema={schema}']"


def plan(script: Script) -> QueryPlan:
    made = call(script)
    taken = ", ".join(f"{script.struct}.{name} AS {name}" for name in script.taken)
    steps = (
        a_step(script.step, script.kept.format(call=made), 1),
        a_step("project", taken, 1),
        a_step("project", script.named.replace("{call}", made), 1),
    )
    operator = OperatorPlan(
        sort=script.sort,
        keys=b.columns("k string"),
        key_expressions=trees(f"{made}.k"),
        values=trees(script.summed.format(call=made)),
        value_types=("bigint",),
        output_names=(("v",),),
        results=trees("k, sum(n) AS v"),
    )
    names = {"filter": "Filter", "map": "MapInPandas", "project": "Project"}
    told = [(names[one.step], 1, one.tree.digest) for one in steps]
    told.append(("Aggregate", 0, operator.values[0].digest + operator.key_expressions[0].digest))
    nodes = (
        NodePlan(node=node, below=below, digest=hashlib.sha256(text.encode()).hexdigest()[:16])
        for node, below, text in told
    )
    return replace(
        b.a_stateless(),
        output_mode="update",
        sink=b.a_sink("foreachbatch"),
        operators=(operator,),
        steps=steps,
        nodes=tuple(nodes),
    )


OLD = Script()
WHOLE = OLD._replace(summed="max(structs_to_json({call}))")
ALLOWED = {
    "one more text": (OLD, OLD.more(COUPON)),
    "as the first": (OLD, OLD._replace(fields=(COUPON, *OLD.fields))),
    "two more": (OLD, OLD.more(COUPON, "shop string")),
    "one more that is taken out": (OLD, OLD.more(COUPON, taken=(*OLD.taken, "coupon"))),
    "with Spark's own column of corrupt records": tuple(
        one._replace(
            options="",
            fields=(*one.fields[:-1], "_corrupt_record string"),
            kept="is_null(o._corrupt_record)",
        )
        for one in (OLD, OLD.more(COUPON))
    ),
    "with one more condition": tuple(
        one._replace(kept="((n > 'a OR b') AND is_null({call}._corrupt))")
        for one in (OLD, OLD.more(COUPON))
    ),
    "of a struct whose name is no word": tuple(
        one._replace(named="{call} AS `an o`", struct="`an o`") for one in (OLD, OLD.more(COUPON))
    ),
    "beside another schema of the same text": tuple(
        one._replace(named="{call} AS o, " + call(OLD.more("z string")) + " AS z")
        for one in (OLD, OLD.more(COUPON))
    ),
}
REFUSED = {
    "a number": (OLD, OLD.more("coupon integer")),
    "a text that is never null": (OLD, OLD.more(COUPON + ' {"nullable": false}')),
    "a text with metadata": (OLD, OLD.more(COUPON + ' {"metadata": {"a": 1}}')),
    "a text of a collation": (
        OLD,
        OLD.more(COUPON + ' {"metadata": {"__COLLATIONS": {"coupon": "icu.UNICODE_CI"}}}'),
    ),
    "the column of corrupt records": (
        OLD._replace(fields=(K, N)),
        OLD._replace(fields=(K, CORRUPT, N)),
    ),
    "Spark's own column of them": (
        OLD._replace(options=""),
        OLD._replace(options="").more("_corrupt_record string"),
    ),
    "the same name in other letters": (OLD, OLD.more("K string")),
    "other options too": (OLD, OLD.more(COUPON, options="")),
    "another type too": (OLD, Script(fields=(K, "n bigint", COUPON, CORRUPT))),
    "another order too": (OLD, Script(fields=(N, K, COUPON, CORRUPT))),
    "one less too": (OLD, Script(fields=(K, N, COUPON))),
    "the filter asks for a field that only looks like the column of corrupt records": tuple(
        one._replace(
            options="options=COLUMNNAMEOFCORRUPTRECORD -> _bad, mode -> PERMISSIVE; ",
            fields=(*one.fields[:-1], "_corrupt_record string"),
            kept="is_null(o._corrupt_record)",
        )
        for one in (OLD, OLD.more(COUPON))
    ),
    "the column of corrupt records has a name that is no word": tuple(
        one._replace(
            options="options=columnNameOfCorruptRecord -> _corrupt_record-1; ",
            fields=(*one.fields[:-1], "_corrupt_record string"),
            kept="is_null(o._corrupt_record)",
        )
        for one in (OLD, OLD.more(COUPON))
    ),
    "corrupt records are no column": tuple(
        one._replace(options="", kept="(n > 1)") for one in (OLD, OLD.more(COUPON))
    ),
    "corrupt records are kept": tuple(
        one._replace(kept="(n > 1)") for one in (OLD, OLD.more(COUPON))
    ),
    "corrupt records are kept alone": tuple(
        one._replace(kept="is_not_null(_corrupt)") for one in (OLD, OLD.more(COUPON))
    ),
    "some corrupt records are kept": tuple(
        one._replace(kept="(is_null(_corrupt) OR (n > 1))") for one in (OLD, OLD.more(COUPON))
    ),
    "another column has the name": tuple(
        one._replace(named="{call} AS o, value AS _corrupt") for one in (OLD, OLD.more(COUPON))
    ),
    "the struct is summed up": (WHOLE, WHOLE.more(COUPON)),
    "fields are taken by their place": tuple(
        one._replace(summed="sum({call}.1)") for one in (OLD, OLD.more(COUPON))
    ),
    "a filter takes the struct": tuple(
        one._replace(kept="contains(structs_to_json(o), x)") for one in (OLD, OLD.more(COUPON))
    ),
    "a filter takes the call": tuple(
        one._replace(kept="isnotnull({call})") for one in (OLD, OLD.more(COUPON))
    ),
    "the struct gets another name": tuple(
        one._replace(named="{call} AS o, o AS p", struct="p") for one in (OLD, OLD.more(COUPON))
    ),
    "a function sees the struct": tuple(
        one._replace(step="map", kept="dear()") for one in (OLD, OLD.more(COUPON))
    ),
    "state of the user's": tuple(
        one._replace(sort=OperatorKind.TRANSFORM_WITH_STATE) for one in (OLD, OLD.more(COUPON))
    ),
    "two schemas of one text change": tuple(
        one._replace(named="{call} AS o, " + call(OLD.more(*z)) + " AS z")
        for one, z in ((OLD, ["z string"]), (OLD.more(COUPON), ["z string", "y string"]))
    ),
}


@pytest.mark.parametrize(("old", "new"), ALLOWED.values(), ids=ALLOWED.keys())
def test_a_text_field_more_is_let_pass_and_named(old: Script, new: Script) -> None:
    found = judge_change(plan(old), plan(new), None)

    assert worst(finding.severity for finding in found) is TOLD, found
    assert "step.json_text_field_added" in {finding.rule for finding in found}


@pytest.mark.parametrize(("old", "new"), REFUSED.values(), ids=REFUSED.keys())
def test_what_may_read_a_record_otherwise_is_not(old: Script, new: Script) -> None:
    found = judge_change(plan(old), plan(new), None)

    assert worst(finding.severity for finding in found) in (NO, UNKNOWN), found
    assert "step.json_text_field_added" not in {finding.rule for finding in found}


@pytest.mark.parametrize(
    ("other", "rule"),
    [
        pytest.param(
            {"kept": "(is_null(_corrupt) AND (n > 1))"},
            "step.filter_before_endless_state",
            id="filter",
        ),
        pytest.param({"summed": "sum({call}.k)"}, "aggregation.aggregates", id="another sum"),
        pytest.param(
            {"summed": "max({call}.coupon)"}, "aggregation.aggregates", id="the new field summed up"
        ),
    ],
)
def test_other_differences_are_found_beside_it(other: dict[str, str], rule: str) -> None:
    found = judge_change(plan(OLD), plan(OLD.more(COUPON, **other)), None)

    assert worst(finding.severity for finding in found) is NO
    assert {"step.json_text_field_added", rule} <= {finding.rule for finding in found}


def recorded(name: str) -> QueryPlan:
    """Return the plan of one query that a real Spark 4.3 was asked for."""
    (query,) = Plans.of("4.3.0")[name].queries
    return query


@pytest.mark.parametrize(
    "edit",
    [
        "parsed.text_field",
        "parsed.text_field_first",
        "parsed.two_text_fields",
        "parsed_once.text_field",
    ],
)
def test_plans_of_a_real_spark_are_told_by_the_names_of_the_fields(edit: str) -> None:
    old, new = recorded(edit.partition(".")[0]), recorded(edit)
    found = judge_change(old, new, None)

    assert any("sale.shop AS shop" in step_text(one.tree) for one in old.steps)
    assert worst(finding.severity for finding in found) is TOLD, found
    assert "step.json_text_field_added" in {finding.rule for finding in found}
