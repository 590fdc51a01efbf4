"""
What plan mode captures of what no plan's text shows, on the oldest Spark and on the newest.

One script starts three queries for each thing: one, the same once more, and one in which this thing
alone is another. The change gate is asked about them in pairs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from airflow_streaming.gates.change.judge import judge_change
from airflow_streaming.gates.findings import GateDecision, worst
from airflow_streaming.launch.runtime import resolve_runtime
from airflow_streaming.model.spark.plan import OPAQUE, QueryPlan, ScriptPlan
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.runner import Program
from tests.conftest import OLDER, find_runtimes
from tests.patience import PATIENCE

SETUP: Final = """
import os
import sys
from pyspark.sql import SparkSession, Window, functions as F
from pyspark.sql.types import StringType

builder = SparkSession.builder.master("local[1]")
for key, value in {"spark.vendor.mode": "strict", "spark.hadoop.fs.vendor.impl": "Vendor"}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
folder = sys.argv[1]
for place in ("first", "second"):
    spark.range(3).withColumnRenamed("id", "v").write.parquet(f"{folder}/{place}")
    spark.read.parquet(f"{folder}/{place}").createOrReplaceTempView(place)
    saved = spark.table(place).write.option("path", f"{folder}/{place}_saved")
    saved.saveAsTable(f"{place}_saved")

def made(factor, grow=lambda n, by: n * by, *, shift=0):
    def enlarged(n):
        return grow(n or 0, factor) + shift
    return F.udf(enlarged, "bigint")

def helped(name):
    return F.udf(getattr(helper, name), "bigint")

class Kept:
    def __init__(self, unit):
        self.unit = unit
    def process(self, row):
        print(self.unit, row)

def into(text):
    def write(batch, number):
        batch.where(f"k = '{text}'").collect()
    return write

def by_name(batch, number):
    session = batch.sparkSession
    rate = session.conf.get("spark.bills.rate") + os.environ["BILLS_RATE"]
    print(session.table("rates").selectExpr("shown(v)").collect(), rate)

def read(**options):
    reader = spark.readStream.schema("ts timestamp, k string, v long").options(**options)
    return reader.json(f"{folder}/input")

def begin(frame, name, mode="update"):
    place = f"{folder}/checkpoints/{name}"
    return frame.writeStream.queryName(name).outputMode(mode).option("checkpointLocation", place)

def counted(frame, column="x"):
    return frame.groupBy(column).count()
"""
UDF: Final = 'counted(read().withColumn("x", {}("v")))'
EXPRESSION: Final = 'counted(read().withColumn("x", F.expr("{}").cast("string")))'
COLUMN: Final = 'counted(read().withColumn("x", {}.cast("string")))'
FRAMES: Final = {
    "constant_in_a_closure": (UDF, "made(2)", "made(3)"),
    "function_in_a_closure": (UDF, "made(2)", "made(2, lambda n, by: n + by)"),
    "argument_by_name": (UDF, "made(2, shift=0)", "made(2, shift=1)"),
    "lambda": (UDF, 'F.udf(lambda n: n, "bigint")', 'F.udf(lambda n: -n, "bigint")'),
    "imported_module": (UDF, 'helped("one")', 'helped("other")'),
    "type_of_a_function": (UDF, 'F.udf(len, "bigint")', 'F.udf(len, "int")'),
    "options_of_from_json": (
        EXPRESSION,
        "from_json(k, 'a int', map('mode', 'PERMISSIVE'))",
        "from_json(k, 'a int', map('mode', 'FAILFAST'))",
    ),
    "schema_of_from_json": (
        EXPRESSION,
        "from_json(k, 'a int, b int')",
        "from_json(k, 'b int, a int')",
    ),
    "options_of_from_csv": (
        EXPRESSION,
        "from_csv(k, 'a int')",
        "from_csv(k, 'a int', map('sep', '|'))",
    ),
    "options_of_to_json": (
        EXPRESSION,
        "to_json(struct(v))",
        "to_json(struct(v), map('ignoreNullFields', 'false'))",
    ),
    "body_of_a_lambda_function": (
        COLUMN,
        'F.transform(F.split("k", " "), lambda word: F.upper(word))',
        'F.transform(F.split("k", " "), lambda word: F.lower(word))',
    ),
    "variables_of_a_lambda_function": (
        COLUMN,
        'F.aggregate(F.array("v"), F.lit(0).cast("bigint"), lambda total, one: total - one)',
        'F.aggregate(F.array("v"), F.lit(0).cast("bigint"), lambda total, one: one - total)',
    ),
    "metadata_of_an_alias": (
        'counted(read().select({}), "k")',
        'F.col("k").alias("k")',
        'F.col("k").alias("k", metadata={"unit": "km"})',
    ),
    "binary_literal": (COLUMN, 'F.lit(bytearray(b"a"))', 'F.lit(bytearray(b"b"))'),
    "aggregate_of_the_same_name": (
        'read().groupBy("k").agg(F.expr("{}(v)").alias("x"))',
        "sum",
        "try_sum",
    ),
    "addition_of_the_same_name": (EXPRESSION, "v + 1", "try_add(v, 1)"),
    "scalar_subquery": (
        EXPRESSION,
        "v + (SELECT max(v) FROM first)",
        "v + (SELECT max(v) FROM second)",
    ),
    "table_in_a_subquery": (
        'counted(read().where("v IN (SELECT v FROM {})"), "k")',
        "first",
        "second",
    ),
    "static_side": ('counted(read().join(spark.table("{}"), "v"), "k")', "first", "second"),
    "type_of_a_column_of_a_table": (
        'counted(read().join(spark.read.schema("k string, n {}").json(f"{folder}/first"), "k"), "k")',
        "int",
        "bigint",
    ),
    "scale_of_a_column_of_a_table": (
        'counted(read().join(spark.read.schema("k string, n {}").json(f"{folder}/first"), "k"), "k")',
        "decimal(10,2)",
        "decimal(10,1)",
    ),
    "format_of_a_table": (
        'counted(read().join(spark.read.schema("k string").{}(f"{folder}/first"), "k"), "k")',
        "json",
        "csv",
    ),
    "option_of_a_table": (
        'counted(read().join(spark.read.schema("k string").csv(f"{folder}/first", sep="{}"), "k"), "k")',
        ",",
        ";",
    ),
    "rows_of_a_table_in_the_script": (
        "counted(read().join(spark.sql(\"SELECT * FROM VALUES ({}) AS t(k)\"), 'k'), 'k')",
        "'a'",
        "'b'",
    ),
    "table_of_the_catalog": (
        'counted(read().join(spark.table("{}_saved"), "v"), "k")',
        "first",
        "second",
    ),
    "type_of_a_literal_that_is_hashed": (EXPRESSION, "hash(1)", "hash(1L)"),
    "type_of_a_literal_that_is_compared": (EXPRESSION, "k = 1.0", "k = 1.0D"),
    "reading_option": (
        'counted(read(timestampFormat="{}"), "k")',
        "yyyy-MM-dd HH:mm",
        "dd.MM.yyyy HH:mm",
    ),
    "record_of_a_broken_line": ('counted(read(mode="{}"), "k")', "PERMISSIVE", "DROPMALFORMED"),
}
SINKS: Final = {
    "function_of_each_batch": ("foreachBatch(into({}))", '"a"', '"b"'),
    "writer_of_each_row": ("foreach(Kept({}))", '"m"', '"km"'),
}
BY_NAME: Final = {
    "view": (
        'spark.read.parquet(f"{folder}/{}").createOrReplaceTempView("rates")',
        "first",
        "second",
    ),
    "registered_function": ('spark.udf.register("shown", lambda n: {}, "bigint")', "n", "-n"),
    "key_of_the_configuration": ('spark.conf.set("spark.bills.rate", "{}")', "1", "2"),
    "variable_of_the_environment": ('os.environ["BILLS_RATE"] = "{}"', "1", "2"),
}
"""Objects that the function of a sink finds by a name in its code."""
SETTINGS: Final = {
    "case": ("spark.sql.caseSensitive", "true"),
    "ansi": ("spark.sql.ansi.enabled", {"spark-3.5": "true", "spark-4.3": "false"}),
    "time_parser": ("spark.sql.legacy.timeParserPolicy", "LEGACY"),
    "corrupt_files": ("spark.sql.files.ignoreCorruptFiles", "true"),
    "time_zone": ("spark.sql.session.timeZone", "Asia/Tokyo"),
}
SAME, OTHER = "again", "other"
CHECKED: Final = (*FRAMES, *SINKS, *BY_NAME, *SETTINGS)


def script(spark: str) -> str:
    """Return the script that starts all queries; it ends with the one that starts last."""
    return "\n".join((SETUP, *_queries(spark)))


def _queries(spark: str) -> Iterator[str]:
    for name, (text, one, other) in FRAMES.items():
        for kind, value in ((name, one), (f"{name}_{SAME}", one), (f"{name}_{OTHER}", other)):
            frame = text.replace("{}", value)
            yield f'begin({frame}, {kind!r}).format("console").start()'
    for name, (text, one, other) in SINKS.items():
        for kind, value in ((name, one), (f"{name}_{SAME}", one), (f"{name}_{OTHER}", other)):
            yield f"begin(read(), {kind!r}).{text.replace('{}', value)}.start()"
    for text, one, _ in BY_NAME.values():
        yield text.replace("{}", one)
    for name, (text, one, other) in BY_NAME.items():
        start = "begin(read(), {!r}).foreachBatch(by_name).start()"
        yield start.format(name)
        yield start.format(f"{name}_{SAME}")
        yield text.replace("{}", other)
        yield start.format(f"{name}_{OTHER}")
        yield text.replace("{}", one)
    for name, (key, told) in SETTINGS.items():
        value = told if isinstance(told, str) else told[spark]
        start = 'begin(counted(read(), "k"), {!r}).format("console").start()'
        yield start.format(name)
        yield start.format(f"{name}_{SAME}")
        yield f"was = spark.conf.get({key!r}, None)"
        yield f"spark.conf.set({key!r}, {value!r})"
        yield start.format(f"{name}_{OTHER}")
        yield f"spark.conf.unset({key!r}) if was is None else spark.conf.set({key!r}, was)"


@pytest.fixture(scope="module", params=[OLDER, "spark-4.3"])
def planned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ScriptPlan:
    runtime = find_runtimes().get(request.param)
    if runtime is None:
        pytest.skip(f"There is no .runtimes/{request.param}; run 'make setup'.")
    folder = tmp_path_factory.mktemp("capture")
    (folder / "input").mkdir()
    (folder / "scratch").mkdir()
    modules = folder / "modules"
    modules.mkdir()
    (modules / "helper.py").write_text(
        "import helped\n\ndef one(n):\n    return helped.twice(n)\n\n"
        "def other(n):\n    return helped.thrice(n)\n"
    )
    (modules / "helped.py").write_text(
        "def twice(n):\n    return n * 2\n\ndef thrice(n):\n    return n * 3\n"
    )
    text = (
        f"import sys\nsys.path.insert(0, {str(modules)!r})\nimport helper\n{script(request.param)}"
    )
    program = Program(
        application=str(folder / "job.py"), source=text.encode(), arguments=(str(folder),)
    )
    found = resolve_runtime(request.param, {request.param: str(runtime)})
    return plan_script(program, found, scratch=folder / "scratch", timeout=PATIENCE)


def query(planned: ScriptPlan, name: str) -> QueryPlan:
    found = planned.query(name)
    assert found is not None, f"{name} was not captured; {planned.problem}"
    return found


def answer(planned: ScriptPlan, name: str, kind: str) -> GateDecision:
    old, new = query(planned, name), query(planned, f"{name}_{kind}")
    alike = replace(new, query=old.query, checkpoint=old.checkpoint)
    return worst(finding.severity for finding in judge_change(old, alike, None))


def test_the_whole_script_is_captured(planned: ScriptPlan) -> None:
    assert planned.problem == ""
    assert len(planned.queries) == 3 * len(CHECKED)


def test_what_is_the_same_is_the_same_in_every_query(planned: ScriptPlan) -> None:
    answers = {name: answer(planned, name, SAME) for name in CHECKED}

    assert {name: a for name, a in answers.items() if a is not GateDecision.ALLOWED} == {}


def test_one_thing_that_is_another_is_never_allowed_in_silence(planned: ScriptPlan) -> None:
    answers = {name: answer(planned, name, OTHER) for name in CHECKED}
    through = {name for name, a in answers.items() if a is GateDecision.ALLOWED}

    assert through == set()
    # Behind all state, only the sink's own function and its inputs may be another.
    let_pass = {n for n, a in answers.items() if a is GateDecision.ALLOWED_WITH_CONSEQUENCE}
    assert let_pass <= {*SINKS, *BY_NAME}


def test_nothing_stays_opaque(planned: ScriptPlan) -> None:
    told = {one.query: json.dumps(one.to_dict()) for one in planned.queries}

    assert [name for name, text in told.items() if OPAQUE in text] == []
    assert {one.query: one.notes for one in planned.queries if one.notes} == {}


def test_settings_of_the_core_are_captured_without_those_of_the_deployment(
    planned: ScriptPlan,
) -> None:
    cores = [{**(one.core or {})} for one in planned.queries]

    assert cores == [{"spark.vendor.mode": "strict"}] * len(cores)
