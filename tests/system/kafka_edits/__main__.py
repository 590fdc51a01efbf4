"""
Tries every Kafka edit on a real Spark, connector and broker, and records truth, plans and checkpoints.

``python -m tests.system.kafka_edits --runtime .runtimes/spark-4.3 --jars FOLDER``: the folder holds spark-sql-kafka and
the jars that it needs.
"""

# ruff: noqa: T201 - a program that prints

from __future__ import annotations

import argparse
import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path

from airflow_streaming.model.spark.plan import ScriptPlan
from tests.integration.servers.broker import kafka_broker
from tests.system.edits.edit import Base
from tests.system.edits.trial import PLAN_PROGRAM, Spark
from tests.system.kafka_edits.catalogue import BASES, EDITS
from tests.system.kafka_edits.recorded import SERVERS, TRUTH, pack, read, write, write_plans
from tests.system.kafka_edits.trial import Topics, Trials


def main() -> None:
    """Try and plan the edits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--jars", type=Path, required=True)
    parser.add_argument("--plans-only", action="store_true", help="keep truth and checkpoints")
    args = parser.parse_args()
    jars = ",".join(map(str, sorted(args.jars.glob("*.jar"))))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} pyspark-shell"
    runtime = args.runtime.absolute()
    with tempfile.TemporaryDirectory(prefix="kafka-edits-") as name:
        folder = Path(name)
        with kafka_broker(folder / "broker") as servers:
            if not args.plans_only:
                _try(runtime, servers, folder)
            _plan(runtime, servers, folder)


def _try(runtime: Path, servers: str, folder: Path) -> None:
    with Spark(runtime) as spark:
        trials = Trials(spark, Topics(servers), servers, folder)
        trials.begin([*EDITS])
        pack({base.name: trials.old(base) for base in BASES})
        for edit in EDITS:
            tried = trials.tried(edit)
            told = {"truth": tried.truth.value, "condition": tried.condition, "rows": tried.rows}
            write(TRUTH, {**read(TRUTH), edit.name: {k: v for k, v in told.items() if v}})
            print(f"{edit.name}: {tried.truth} {tried.condition} {tried.rows}", flush=True)


def _plan(runtime: Path, servers: str, folder: Path) -> None:
    with Spark(runtime, PLAN_PROGRAM) as spark:
        plans = {}
        for base, name, source in (
            *((base, base.name, base.source) for base in BASES),
            *((edit.base, edit.name, edit.source) for edit in EDITS),
        ):
            plans[name] = _planned(spark, base, source, servers, folder)
            if plans[name].problem:
                print(f"{name}: {plans[name].problem}", flush=True)
        write_plans(plans)


def _planned(spark: Spark, base: Base, source: str, servers: str, folder: Path) -> ScriptPlan:
    arguments = tuple(text.replace("{servers}", servers) for text in base.arguments)
    plan = spark.plan(replace(base, arguments=arguments), source, folder / base.name)
    return ScriptPlan.from_dict(json.loads(json.dumps(plan.to_dict()).replace(servers, SERVERS)))


if __name__ == "__main__":
    main()
