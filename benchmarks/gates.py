"""
What the gates cost.

    python -m benchmarks.gates                              the gates and the closure of code, without a JVM
    python -m benchmarks.gates --runtime /opt/spark-4.3     and plan mode beside Spark's own start

The gates are asked about checkpoints of ten thousand files, made as ``benchmarks.inspecting`` makes
them; the goal is 300 milliseconds. Plan mode of a script with five queries, three of them with
state, is timed from outside, beside a bare ``spark-submit`` of a script that does nothing but make a
session; the two take turns. The goal is two seconds more. The size of a plan is that of the record in
the stream's home. The closure is that of a function whose script imports 200 modules of 20 functions, in a
process of its own; the goal is two seconds, and a second function of the same script finds the parsed modules.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from airflow_streaming.gates.change_gate import gate_change
from airflow_streaming.gates.version_gate import gate_version
from airflow_streaming.launch.environment import driver_environment
from airflow_streaming.launch.runtime import Runtime, resolve_runtime
from airflow_streaming.model.plan.schema import Column
from airflow_streaming.model.plan.tree import ColumnRef, Expr, literal
from airflow_streaming.model.spark.plan import (
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    ScriptPlan,
    SinkPlan,
    SourcePlan,
)
from airflow_streaming.spark_jobs.plan_mode import plan_script
from airflow_streaming.spark_jobs.runner import Program
from benchmarks.inspecting import SHAPES, build, timed

GATE_GOAL_MS: Final = 300
PLAN_GOAL_S: Final = 2.0
CLOSURE_GOAL_S: Final = 2.0
MODULES: Final = 200
FUNCTIONS: Final = 20
CHAIN: Final = 10
"""Modules of which each calls the next one."""

MODULE: Final = """
import logging
{imports}
log = logging.getLogger(__name__)
LIMIT = {number}
TABLE = {{"a": {number}, "b": 2}}
SEEN = set()

class Rate:
    factor = 1.5
    def of(self, x):
        return x * self.factor + LIMIT

{functions}
"""
FUNCTION: Final = """
def f{place}(x):
    y = x + TABLE["a"]
    if y > LIMIT:
        log.info("above %s", x)
        y = {next}
    for one in range(y % 3):
        y += one
    return Rate().of(y)
"""
CLOSURE: Final = """
import sys, time, types
sys.path.insert(0, sys.argv[1])
from airflow_streaming.driver.code.functions import closure_of
script = types.ModuleType("__main__")
script.__file__ = sys.argv[1] + "/script.py"
sys.modules["__main__"] = script
exec(compile(open(script.__file__).read(), script.__file__, "exec"), script.__dict__)
for name in ("first", "second"):
    begun = time.perf_counter(), time.process_time()
    code = closure_of(script.__dict__[name]).code
    print(time.perf_counter() - begun[0], time.process_time() - begun[1])
    assert not code.startswith("opaque"), code
"""

SESSION: Final = """
from pyspark.sql import SparkSession
SparkSession.builder.getOrCreate().range(1).schema
"""
QUERIES: Final = """
import sys
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate").load().withWatermark("timestamp", "10 seconds")
keyed = rows.withColumn("k", F.col("value") % 10)
sums = keyed.groupBy(F.window("timestamp", "20 seconds"), "k").agg(F.sum("value"), F.count("*"))
once = keyed.dropDuplicates(["k", "timestamp"])
other = spark.readStream.format("rate").load().select(F.col("value").alias("v"), "timestamp")
other = other.withColumnRenamed("timestamp", "at").withWatermark("at", "10 seconds")
pairs = keyed.join(other, F.expr("value = v and at between timestamp and timestamp + interval 5 seconds"))
for name, made in dict(sums=sums, once=once, pairs=pairs, raw=rows, keyed=keyed).items():
    made.writeStream.queryName(name).format("noop").start()
spark.streams.awaitAnyTermination()
"""


def plan() -> QueryPlan:
    """Return the plan of the query that made the golden checkpoint, as far as it is known."""
    counts = OperatorPlan(
        sort=OperatorKind.AGGREGATE,
        keys=(Column(name="k", type="string"),),
        key_expressions=(ColumnRef("k"),),
        values=(Expr("count", [literal("1", "int")]), Expr("sum", [ColumnRef("v")])),
        value_types=("bigint", "bigint"),
        output_names=(("count",), ("sum",)),
    )
    return QueryPlan(
        query="q",
        spark="4.3.0",
        output_mode="update",
        sink=SinkPlan(sink="noop"),
        sources=(SourcePlan(source="file", format="json", paths=("/in",)),),
        operators=(counts,),
    )


def time_gates(shape: str, folder: Path) -> None:
    files = build(shape, folder)
    new = ScriptPlan(application="job.py", spark="4.3.0", queries=(plan(),))
    where = {"q": str(folder)}
    gates: dict[str, Callable[[], object]] = {
        "change": lambda: gate_change(where, [plan()], new),
        "version": lambda: gate_version(where, "4.2", "4.3", plans=[plan()]),
    }
    for name, gate in gates.items():
        median, worst = timed(gate)
        begun = time.process_time()
        gate()
        cpu = (time.process_time() - begun) * 1000
        print(
            f"gate {name}, {shape}: {files} files, {median:.0f} ms (worst {worst:.0f}; "
            f"{median / files * 10_000:.0f} for 10,000 files, goal {GATE_GOAL_MS}), {cpu:.0f} ms of "
            "a core"
        )


def write_script(folder: Path) -> None:
    """Write a script whose functions reach every function of its modules."""
    for number in range(MODULES):
        last = (number + 1) % CHAIN == 0
        following = "" if last else f"import m{number + 1}"
        functions = "".join(
            FUNCTION.format(place=place, next="x" if last else f"m{number + 1}.f{place}(x)")
            for place in range(FUNCTIONS)
        )
        text = MODULE.format(imports=following, number=number, functions=functions)
        (folder / f"m{number}.py").write_text(text)
    heads = [f"m{number}" for number in range(0, MODULES, CHAIN)]
    calls = ", ".join(f"{head}.f{place}(x)" for head in heads for place in range(FUNCTIONS))
    imports = f"import {', '.join(heads)}\n"
    (folder / "script.py").write_text(
        f"{imports}def first(x): return [{calls}]\ndef second(x): return 1, {calls}\n"
    )


def time_closure(folder: Path) -> None:
    write_script(folder)
    told = subprocess.run(
        [sys.executable, "-c", CLOSURE, str(folder)], check=True, capture_output=True, text=True
    )
    figures = [[*map(float, line.split())] for line in told.stdout.splitlines()]
    for (wall, cpu), which in zip(figures, ("first", "second"), strict=True):
        print(
            f"closure of {MODULES} modules with {MODULES * FUNCTIONS:,} functions, {which} function: "
            f"{wall:.2f} s, {cpu:.2f} s of a core (goal {CLOSURE_GOAL_S:.0f})"
        )


def bare_start(runtime: Runtime, folder: Path) -> None:
    script = folder / "session.py"
    script.write_text(SESSION)
    command = [
        str(runtime.spark_submit),
        "--master",
        "local[1]",
        "--conf",
        "spark.ui.enabled=false",
    ]
    subprocess.run(
        [*command, str(script)],
        check=True,
        env=driver_environment(os.environ, runtime, {}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def plan_mode(runtime: Runtime) -> ScriptPlan:
    planned = plan_script(Program(application="/job.py", source=QUERIES.encode()), runtime)
    notes = [note for query in planned.queries for note in query.notes]
    if len(planned.queries) != 5 or planned.problem or notes:
        raise SystemExit(f"plan mode told {planned}")
    return planned


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def time_plan_mode(path: str, rounds: int) -> None:
    runtime = resolve_runtime("given", {"given": str(Path(path).absolute())})
    bare, planned = [], []
    with tempfile.TemporaryDirectory(prefix="airflow-streaming-gates-") as folder:
        for _ in range(rounds):
            bare.append(seconds(lambda: bare_start(runtime, Path(folder))))
            planned.append(seconds(lambda: plan_mode(runtime)))
    more = statistics.median(planned) - statistics.median(bare)
    print(
        f"Spark {runtime.spark_version}: bare start {statistics.median(bare):.1f} s, plan mode of "
        f"five queries {statistics.median(planned):.1f} s: {more:+.1f} s (goal +{PLAN_GOAL_S:.0f}); "
        f"each {rounds} times, bare {[round(s, 1) for s in bare]}, "
        f"plan mode {[round(s, 1) for s in planned]}"
    )
    sizes = [len(query.to_bytes()) for query in plan_mode(runtime).queries]
    print(
        f"recorded plans of these five queries: {min(sizes):,} to {max(sizes):,} bytes, median "
        f"{statistics.median(sizes):,.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the gates and plan mode.")
    parser.add_argument("--runtime", action="append", default=[], metavar="PATH")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    for shape in SHAPES:
        with tempfile.TemporaryDirectory(prefix="airflow-streaming-gates-") as folder:
            time_gates(shape, Path(folder))
    with tempfile.TemporaryDirectory(prefix="airflow-streaming-gates-") as folder:
        time_closure(Path(folder))
    for path in arguments.runtime:
        time_plan_mode(path, arguments.rounds)


if __name__ == "__main__":
    main()
