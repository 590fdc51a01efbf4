"""Plans that real Sparks have told, read without one."""

from __future__ import annotations

import json
import lzma
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_streaming.driver.plan import reading
from airflow_streaming.driver.plan.columns import Names
from airflow_streaming.driver.plan.expressions import Wording, whole_tree
from airflow_streaming.driver.plan.hidden import Hidden
from airflow_streaming.driver.plan.nodes import read_tree
from airflow_streaming.driver.plan.reading import Taken, read_plan
from airflow_streaming.driver.plan.writer_settings import WriterSettings
from airflow_streaming.model.plan.schema import column_texts
from airflow_streaming.model.plan.text import step_text, text_of
from airflow_streaming.model.plan.tree import with_texts
from airflow_streaming.model.spark.plan import OperatorKind, OperatorPlan, QueryPlan, StepPlan

RECORDED = Path(__file__).parent / "recorded_plans.json.xz"
SPARKS = ("3.5.9", "4.3.0")
EMPTY = json.dumps({"type": "struct", "fields": []})


@cache
def recorded() -> dict[str, dict[str, list[Any]]]:
    told: dict[str, dict[str, list[Any]]] = json.loads(lzma.decompress(RECORDED.read_bytes()))
    return told


class Told(list[Any]):
    """A Scala collection, as far as it is asked."""

    def mkString(self, _: str) -> str:
        return ""

    def apply(self, place: int) -> Any:
        return self[place]


class Plan:
    """A plan in the JVM that tells what a real one has told; its schemas are not recorded."""

    def __init__(self, nodes: list[Any]) -> None:
        self._nodes = nodes

    def toJSON(self) -> str:
        return json.dumps(self._nodes)

    def apply(self, _: int) -> Any:
        return SimpleNamespace(
            schema=lambda: SimpleNamespace(json=lambda: EMPTY), delay=lambda: "10 seconds"
        )

    def collectLeaves(self) -> Told:
        leaves = [node for node in self._nodes if node["num-children"] == 0]
        return Told(Source(node) for node in leaves)


class Source:
    """A relation in the JVM: files below a folder, or the rate source."""

    def __init__(self, node: Any) -> None:
        self._node = node

    def dataSource(self) -> Any:
        options = SimpleNamespace(
            mkString=lambda by: by.join(["path -> /data", "maxFilesPerTrigger -> 1"])
        )
        schema = SimpleNamespace(isEmpty=lambda: False)
        return SimpleNamespace(
            className=lambda: "JSON",
            options=lambda: options,
            paths=Told,
            userSpecifiedSchema=lambda: schema,
        )

    def sourceName(self) -> str:
        return str(self._node["sourceName"])

    def extraOptions(self) -> Any:
        told = {"rowsPerSecond": "5", "password": "a secret"}
        return SimpleNamespace(asCaseSensitiveMap=lambda: told)


def gateway() -> Any:
    path = [
        "jvm",
        "org",
        "apache",
        "spark",
        "sql",
        "catalyst",
        "plans",
        "logical",
        "EventTimeWatermark",
    ]
    found = SimpleNamespace(getDelayMs=lambda _: 10_000)
    for name in reversed(path):
        found = SimpleNamespace(**{name: found})
    return found


@pytest.fixture(autouse=True)
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only a JVM can say of a plan is not recorded: hidden fields, and Spark's own checks."""
    monkeypatch.setattr(Hidden, "said", lambda *_: {})
    monkeypatch.setattr(Hidden, "at", lambda self, node: self._plan.apply(node.index))
    monkeypatch.setattr(reading, "refusal_of", lambda *_, **__: "")


def taken(nodes: list[Any], spark: str, said: WriterSettings | None = None) -> Taken:
    frame = SimpleNamespace(
        queryExecution=lambda: SimpleNamespace(analyzed=lambda: Plan(nodes)),
        schema=lambda: SimpleNamespace(json=lambda: EMPTY),
        sparkSession=lambda: SimpleNamespace(
            sessionState=lambda: SimpleNamespace(
                optimizer=lambda: SimpleNamespace(execute=lambda plan: plan)
            )
        ),
    )
    return Taken("q", "", said or WriterSettings(), frame, gateway(), spark, {}, "parquet")


def read(spark: str, shape: str, said: WriterSettings | None = None) -> QueryPlan:
    return read_plan(taken(recorded()[spark][shape], spark, said))


def only(plan: QueryPlan) -> OperatorPlan:
    (operator,) = plan.operators
    return operator


@pytest.mark.parametrize("spark", SPARKS)
@pytest.mark.parametrize(
    ("shape", "sort", "made_of"),
    [
        (
            "agg",
            OperatorKind.AGGREGATE,
            ("window(ts, length=20 seconds)", "k", "count(1)", "sum(v)"),
        ),
        (
            "slide",
            OperatorKind.AGGREGATE,
            (
                "window(ts, length=20 seconds, slide=10 seconds, start=2 seconds)",
                "k",
                "sum((v + cast(1 as bigint)))",
            ),
        ),
        (
            "session",
            OperatorKind.SESSION_WINDOW,
            ("session_window(ts, interval 5 seconds)", "k", "count(1)"),
        ),
        ("dedup", OperatorKind.DEDUPLICATE, ("k", "ts")),
        ("distinct", OperatorKind.DEDUPLICATE, ("k",)),
        ("dww", OperatorKind.DEDUPLICATE_WITHIN_WATERMARK, ("k",)),
        ("join", OperatorKind.JOIN, ("(v = value)",)),
        ("sql", OperatorKind.AGGREGATE, ("k", "sum(v)", "avg(v)")),
    ],
)
def test_the_operator_is_what_the_script_asked_for(
    spark: str, shape: str, sort: OperatorKind, made_of: tuple[str, ...]
) -> None:
    plan = read(spark, shape)
    operator = only(plan)
    assert plan.notes == ()
    assert operator.sort is sort
    assert (*map(text_of, operator.key_expressions), *map(text_of, operator.values)) == made_of


@pytest.mark.parametrize("shape", sorted(recorded()["3.5.9"]))
def test_two_releases_tell_the_same_of_the_same_code(shape: str) -> None:
    old, new = (read(spark, shape) for spark in SPARKS)
    # A node may have other fields, and a Python function is run through Arrow from 4.2 on.
    plain = [replace(plan, spark="", nodes=(), steps=without_arrow(plan)) for plan in (old, new)]
    assert plain[0] == plain[1]


def without_arrow(plan: QueryPlan) -> tuple[StepPlan, ...]:
    def plain(text: str) -> str:
        return "" if text in ("100", "101") else text

    return tuple(replace(s, tree=with_texts(s.tree, plain)) for s in plan.steps)


@pytest.mark.parametrize("shape", sorted(recorded()["4.3.0"]))
def test_the_numbers_of_one_run_are_in_no_plan(shape: str) -> None:
    shifted = json.loads(
        json.dumps(recorded()["4.3.0"][shape]),
        object_hook=lambda one: (
            {**one, "id": one["id"] + 1000, "jvmId": "x"} if "jvmId" in one else one
        ),
    )
    again = read_plan(taken(shifted, "4.3.0"))
    assert again == read("4.3.0", shape)


def test_windows_joins_and_marks_are_told_by_their_measures() -> None:
    assert only(read("4.3.0", "slide")).window_us == (20_000_000, 10_000_000, 2_000_000)
    gap = only(read("4.3.0", "session")).gap
    assert gap is not None
    assert text_of(gap) == "interval 5 seconds"
    join = only(read("4.3.0", "join"))
    assert join.join_type == "left_outer"
    assert join.condition is not None
    assert text_of(join.condition).startswith("((v = value) AND ((timestamp >= ts)")
    marks = read("4.3.0", "join").watermarks
    assert [(mark.column, mark.delay_ms) for mark in marks] == [
        ("ts", 10_000),
        ("timestamp", 10_000),
    ]


@pytest.mark.parametrize("shape", ["agg", "slide", "session"])
@pytest.mark.parametrize("spark", SPARKS)
def test_projections_and_filters_that_spark_makes_for_a_window_are_no_steps(
    spark: str, shape: str
) -> None:
    plan = read(spark, shape)

    assert plan.steps == ()
    assert [node.node for node in plan.nodes] == ["Aggregate", "EventTimeWatermark"]


def test_functions_with_state_are_told_by_their_schemas() -> None:
    groups = only(read("4.3.0", "apws"))
    assert column_texts(groups.state_columns) == "n bigint"
    assert column_texts(groups.output_columns) == "k string, n bigint"
    assert (groups.timeout, groups.function) == ("NoTimeout", "f")
    transform = only(read("4.3.0", "tws"))
    assert transform.sort is OperatorKind.TRANSFORM_WITH_STATE
    assert transform.time_mode == "NoTime"
    assert [key.name for key in transform.keys] == ["k"]


def test_steps_are_told_from_the_sink_up_and_a_join_with_a_table_is_one() -> None:
    dedup = read("4.3.0", "dedup")
    assert [(s.step, step_text(s.tree), s.below) for s in dedup.steps] == [
        ("filter", "(not((k = 'a#12')) AND (v > cast(3 as bigint)))", 0)
    ]
    static = read("4.3.0", "static")
    assert static.operators == ()
    assert "join" in [step.step for step in static.steps]
    assert "python_udf(k@0, evalType=101): string AS u" in step_text(static.steps[2].tree)
    assert [step.step for step in static.steps].count("table") == 1
    having = read("4.3.0", "sql")
    assert [(s.step, s.below) for s in having.steps] == [("filter", 0), ("project", 1)]


def test_a_function_by_another_name_is_no_other_function() -> None:
    nodes = recorded()["4.3.0"]["static"]
    renamed = json.loads(json.dumps(nodes).replace('"name": "up"', '"name": "upper"'))
    assert renamed != nodes
    old, new = (read_plan(taken(one, "4.3.0")) for one in (nodes, renamed))
    assert (new.steps, new.nodes) == (old.steps, old.nodes)


def test_sources_come_in_the_order_of_the_offset_log_with_secrets_marked() -> None:
    files, rate = read("4.3.0", "join").sources
    assert (files.source, files.format, files.paths) == ("file", "json", ("/data",))
    assert files.options == {"maxfilespertrigger": "1"}
    assert [column.name for column in files.schema] == ["ts", "k", "v"]
    assert rate.source == "rate"
    assert rate.options == {"rowspersecond": "5", "password": "(redacted)"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param(
            WriterSettings(format="parquet", path="/o"), ("file", "parquet", "/o"), id="files"
        ),
        pytest.param(WriterSettings(path="/o"), ("file", "parquet", "/o"), id="the default format"),
        pytest.param(
            WriterSettings(format="Kafka", options={"topic": "t"}), ("kafka", "", "t"), id="a topic"
        ),
        pytest.param(
            WriterSettings(format="foreachbatch", function="f"),
            ("foreachbatch", "", "f"),
            id="a function",
        ),
        pytest.param(
            WriterSettings(format="delta", path="/d"), ("delta", "", "/d"), id="another sink"
        ),
        pytest.param(
            WriterSettings(format="delta", table="t"), ("table", "delta", "t"), id="a table"
        ),
        pytest.param(
            WriterSettings(format="json", path="s3://u:p@h/x"),
            ("file", "json", "s3://u:(redacted)@h/x"),
            id="a password",
        ),
    ],
)
def test_the_sink_is_what_was_said_on_the_writer(
    said: WriterSettings, expected: tuple[str, str, str]
) -> None:
    sink = read("4.3.0", "dedup", said).sink
    assert (sink.sink, sink.format, sink.target) == expected


def test_an_unknown_node_is_a_step_and_an_unreadable_plan_a_note() -> None:
    (node,) = [n for n in recorded()["4.3.0"]["dedup"] if n["class"].endswith("StreamingRelation")]
    odd = {"class": "vendor.Sharpen", "num-children": 1, "strength": "high", "child": 0}
    plan = read_plan(taken([odd, node], "4.3.0"))
    assert [(step.step, step_text(step.tree)) for step in plan.steps] == [
        ("other", 'Sharpen(strength="high")')
    ]
    broken = read_plan(taken([{"no": "node"}], "4.3.0"))
    assert broken.notes == ("The plan could not be read: ValueError.",)
    assert broken.sink.sink == "file"


def test_observed_metrics_are_the_same_after_other_frames_of_the_session() -> None:
    (node,) = [n for n in recorded()["4.3.0"]["dedup"] if n["class"].endswith("StreamingRelation")]

    def observed(name: str, frame: int) -> QueryPlan:
        fields = {"name": name, "metrics": [], "child": 0, "dataframeId": frame}
        top = {"class": "x.CollectMetrics", "num-children": 1, **fields}
        return read_plan(taken([top, node], "4.3.0"))

    assert observed("quality", 12).steps
    assert observed("quality", 12) == observed("quality", 14)
    assert observed("quality", 12) != observed("other", 12)


def test_a_plan_made_in_a_loop_is_deeper_than_pythons_stack() -> None:
    (node,) = [n for n in recorded()["4.3.0"]["dedup"] if n["class"].endswith("StreamingRelation")]
    alias = {"class": "x.SubqueryAlias", "num-children": 1, "child": 0}
    plan = read_plan(taken([alias] * 5000 + [node], "4.3.0"))
    assert (len(plan.sources), plan.notes) == (1, ())


@pytest.mark.parametrize("naming", ["SubqueryAlias", "View"])
def test_a_plan_in_a_subquery_is_told_without_its_name_and_the_time_it_was_given(
    naming: str,
) -> None:
    plans = "org.apache.spark.sql.catalyst.plans.logical."
    leaf = {"class": f"{plans}LocalRelation", "num-children": 0, "isStreaming": False}
    told = [
        {"class": plans + naming, "num-children": 1, "child": 0, "desc": {"createTime": time}}
        for time in (1, 2)
    ]
    texts = {whole_tree(read_tree(json.dumps([one, leaf])), Wording()) for one in told}

    assert texts == {whole_tree(read_tree(json.dumps([leaf])), Wording())}


EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."


def variable(name: str, number: int) -> list[Any]:
    """A variable of a lambda function, as Spark's JSON has it."""
    identity = {"product-class": f"{EXPRESSIONS}ExprId", "id": number, "jvmId": "a-b"}
    fields = {"name": name, "dataType": "integer", "nullable": True, "exprId": identity}
    return [{"class": f"{EXPRESSIONS}NamedLambdaVariable", "num-children": 0, **fields}]


def nested(name: str, /, *children: list[Any], **fields: Any) -> list[Any]:
    """An expression of others."""
    top = {"class": EXPRESSIONS + name, "num-children": len(children), **fields}
    return [top, *(node for child in children for node in child)]


def function(body: list[Any], *variables: list[Any]) -> list[Any]:
    """A lambda function."""
    places = [*range(1, len(variables) + 1)]
    return nested("LambdaFunction", body, *variables, function=0, arguments=places, hidden=False)


def minus(left: list[Any], right: list[Any]) -> list[Any]:
    return nested("Subtract", left, right, left=0, right=1)


def worded(told: list[Any]) -> str:
    return text_of(whole_tree(read_tree(json.dumps(told)), Wording()))


X, Y = variable("x_1", 11), variable("y_2", 12)
INNER = variable("x_3", 13)


@pytest.mark.parametrize(
    ("first", "second", "are_equal"),
    [
        (
            function(minus(X, Y), X, Y),
            function(
                minus(variable("x_7", 27), variable("y_8", 28)),
                variable("x_7", 27),
                variable("y_8", 28),
            ),
            True,
        ),
        (function(minus(X, Y), X, Y), function(minus(Y, X), X, Y), False),
        (function(minus(X, X), X, Y), function(minus(X, Y), X, Y), False),
        (
            function(function(minus(INNER, X), INNER), X),
            function(function(minus(INNER, INNER), INNER), X),
            False,
        ),
        (
            function(function(minus(INNER, X), INNER), X),
            function(function(minus(X, INNER), INNER), X),
            False,
        ),
    ],
    ids=["other names", "places changed", "one twice", "the outer one", "outer and inner"],
)
def test_variables_of_lambda_functions_are_told_by_their_places(
    first: list[Any], second: list[Any], are_equal: bool
) -> None:
    assert (worded(first) == worded(second)) is are_equal


def test_a_lambda_function_has_the_same_text_inside_another_one() -> None:
    closed = function(minus(INNER, INNER), INNER)

    assert worded(closed) in worded(function(minus(X, closed), X))


def test_a_variable_without_a_function_keeps_its_name() -> None:
    assert worded(X) == "lambda x_1"


def field(child: list[Any], place: int, **name: str) -> list[Any]:
    return nested("GetStructField", child, child=0, ordinal=place, **name)


def struct(**types: Any) -> dict[str, Any]:
    """The type of a struct as Spark's JSON has it."""
    fields = [
        {"name": name, "type": of, "nullable": True, "metadata": {}} for name, of in types.items()
    ]
    return {"type": "struct", "fields": fields}


def column(of: Any) -> list[Any]:
    identity = {"product-class": f"{EXPRESSIONS}ExprId", "id": 4, "jvmId": "a-b"}
    return nested("AttributeReference", name="o", dataType=of, nullable=True, exprId=identity)


SALE = struct(id="string", amount="long", at=struct(day="string", hour="integer"))
TWICE = {"type": "struct", "fields": [*struct(id="string")["fields"]] * 2}


@pytest.mark.parametrize(
    ("told", "text"),
    [
        pytest.param(field(column(SALE), 1), "o.amount", id="a star"),
        pytest.param(field(column(SALE), 1, name="AMOUNT"), "o.amount", id="in other letters"),
        pytest.param(field(field(column(SALE), 2), 1), "o.at.hour", id="a star inside"),
        pytest.param(field(column("string"), 1), "o.1", id="a type that is not known"),
        pytest.param(field(column("string"), 1, name="x"), "o.x", id="a name that is not known"),
        pytest.param(field(column(SALE), 3), "o.3", id="no such place"),
        pytest.param(field(column(TWICE), 1, name="id"), "o.1", id="two of one name"),
        pytest.param(field(column(struct(**{"1": "int"})), 0), "o.`1`", id="a name of digits"),
        pytest.param(field(column(struct(**{"a.b": "int"})), 0), "o.`a.b`", id="a name with a dot"),
        pytest.param(field(column(struct(**{"a`b": "int"})), 0), "o.`a``b`", id="a quote"),
        pytest.param(
            field(nested("Alias", column(SALE), child=0, name="o"), 0), "o.id", id="an alias"
        ),
        pytest.param(
            field(nested("CsvToStructs", column("string"), schema=SALE, child=0), 0),
            "csv_to_structs(o).id",
            id="parsed",
        ),
        pytest.param(
            field(
                nested(
                    "CsvToStructs",
                    column("string"),
                    schema=SALE,
                    child=0,
                    requiredSchema=struct(amount="long"),
                ),
                0,
            ),
            "csv_to_structs(o).amount",
            id="pruned",
        ),
    ],
)
def test_a_field_of_a_struct_is_told_by_its_name(told: list[Any], text: str) -> None:
    assert re.sub(r", \w+=\{.*\}", "", worded(told)) == text


def test_a_column_with_a_dot_in_its_name_is_no_field() -> None:
    dotted = nested("AttributeReference", name="o.amount", dataType="long", nullable=True)

    tree = read_tree(json.dumps(dotted))
    assert text_of(Names(tree).tree(tree)) == "`o.amount`"
