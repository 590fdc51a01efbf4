"""What the script of an existing application must change, and where its checkpoints go."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.changes.adoption import (
    OldCheckpoint,
    StartSite,
    adoption,
    read_script,
    spec_text,
)
from airflow_streaming.model.spark.plan import QueryPlan, ScriptPlan, SinkPlan

TARGET = "/home/orders/checkpoints/000001"


def old(name: str = "counts", **changes: Any) -> OldCheckpoint:
    return OldCheckpoint(uri=f"/data/{name}", name=name, batch=7, **changes)


def planned(*queries: tuple[str, str], problem: str = "") -> ScriptPlan:
    plans = (
        QueryPlan(
            query=name,
            spark="4.3.0",
            output_mode="append",
            sink=SinkPlan(sink="noop"),
            checkpoint=place,
        )
        for name, place in queries
    )
    return ScriptPlan(application="job.py", spark="4.3.0", queries=tuple(plans), problem=problem)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('df.writeStream.queryName("a").start()', StartSite(line=1, name="a", is_named=True)),
        ('df.writeStream.start(queryName="a")', StartSite(line=1, name="a", is_named=True)),
        ("df.writeStream.queryName(args.name).start()", StartSite(line=1, is_named=True)),
        (
            'df.writeStream.option("checkpointLocation", "/cp").start()',
            StartSite(line=1, location="/cp", is_literal=True),
        ),
        (
            'df.writeStream.options(checkpointLocation=base + "/a").toTable("t")',
            StartSite(line=1, location="base + '/a'", sink="table"),
        ),
        (
            'df.writeStream.start("/out", checkpointLocation="/cp", format="parquet")',
            StartSite(line=1, location="/cp", is_literal=True, sink="parquet"),
        ),
        (
            '(df.writeStream\n  .format("kafka")\n  .queryName("a")\n  .start())',
            StartSite(line=4, name="a", is_named=True, sink="kafka"),
        ),
        (
            'writer = df.writeStream.queryName("a")\nw2 = writer.foreachBatch(f)\nw2.start()',
            StartSite(line=3, name="a", is_named=True, sink="foreachBatch"),
        ),
        (
            "def f(x):\n    return x.writeStream.format('delta')\nf(df).queryName('a').start()",
            StartSite(line=3, name="a", is_named=True, sink="delta"),
        ),
        ("df.writeStream.format(kind).start()", StartSite(line=1, sink="kind")),
        ("thread.start()", None),
        ("a = b\nb = a\na.start()", None),
        ("df.write.format('x').save()", None),
    ],
)
def test_a_start_of_a_query_is_found(source: str, expected: StartSite | None) -> None:
    assert read_script(source).sites == (() if expected is None else (expected,))


@pytest.mark.parametrize(
    "source",
    [
        'spark.conf.set("spark.sql.streaming.checkpointLocation", "/cp")',
        'SparkSession.builder.config("spark.sql.streaming.checkpointLocation", cp).getOrCreate()',
    ],
)
def test_a_place_for_all_checkpoints_is_found(source: str) -> None:
    assert read_script(f"\n{source}").session_location == 2


NAMED = 'df.writeStream.queryName("counts").start()'
TWO = f'{NAMED}\ndf.writeStream.queryName("raw").start()'
COMPUTED = 'df.writeStream.queryName("counts").option("checkpointLocation", cp + "/x").start()'


@pytest.mark.parametrize(
    ("source", "plan", "found", "edits", "problems"),
    [
        (NAMED, None, [old()], [], []),
        (NAMED, None, [old("cp")], [], []),
        (TWO, None, [old(), old("raw")], [], []),
        (TWO, None, [old()], [], ["Query 'raw' has no checkpoint"]),
        (TWO, None, [old(), old("cp")], [], ["No query of the script is called 'cp'"]),
        ("df.writeStream.start()", None, [old()], ['.queryName("counts")'], []),
        ("df.writeStream.start()", None, [old("a b")], ['.queryName("NAME")'], []),
        (
            "df.writeStream.start()\ndf.writeStream.start()",
            None,
            [old(), old("raw")],
            ['line 1: the query has no name. Add .queryName("NAME")', "line 2"],
            [],
        ),
        (
            'df.writeStream.queryName("counts").option("checkpointLocation", "/cp").start()',
            None,
            [old()],
            ["line 1: the checkpoint '/cp' is written in the script"],
            [],
        ),
        (
            f'{NAMED}\nspark.conf.set("spark.sql.streaming.checkpointLocation", "/cp")',
            None,
            [old()],
            ["line 2: spark.sql.streaming.checkpointLocation"],
            [],
        ),
        (COMPUTED, None, [old()], [], ["line 1: the script computes the place", "--runtime"]),
        (COMPUTED, planned(("counts", f"{TARGET}/x")), [old()], [], []),
        (COMPUTED, planned(("counts", "/cp/x")), [old()], ["at /cp/x, outside of the home"], []),
        (COMPUTED, planned(("counts", f"{TARGET}2/x")), [old()], ["outside of the home"], []),
        (NAMED, planned(("counts", ""), problem="No table."), [old()], [], ["No table."]),
        ("print(1)", None, [old()], [], ["starts no query", "No query of the script"]),
        (
            "df.writeStream.queryName(args.name).start()",
            None,
            [old()],
            [],
            ["computes the name", "No query of the script"],
        ),
        (NAMED, None, [old(problems=("Batch 3 is missing.",))], [], ["/data/counts: Batch 3"]),
    ],
)
def test_what_an_application_needs_is_named(
    source: str,
    plan: ScriptPlan | None,
    found: list[OldCheckpoint],
    edits: list[str],
    problems: list[str],
) -> None:
    result = adoption(read_script(source), plan, found, TARGET)

    assert len(result.edits) == len(edits)
    assert all(part in text for part, text in zip(edits, result.edits, strict=True))
    told = " ".join(result.problems)
    assert all(part in told for part in problems)
    assert bool(result.problems) == bool(problems)
    assert result.is_ready == (not edits and not problems)


@pytest.mark.parametrize(
    ("place", "to"),
    [
        ("", f"{TARGET}/counts"),
        (f"{TARGET}/deep/x", f"{TARGET}/deep/x"),
        (f"file://{TARGET}/x/", f"{TARGET}/x"),
        (TARGET, f"{TARGET}/"),
    ],
)
def test_a_copy_goes_where_the_driver_looks(place: str, to: str) -> None:
    source = COMPUTED if place else NAMED

    result = adoption(read_script(source), planned(("counts", place)), [old("cp")], TARGET)

    assert [(one.query, one.to) for one in result.queries] == [("counts", to)]


def test_the_spec_can_be_pasted() -> None:
    text = spec_text("orders", "/jobs/job.py", "/home", "spark-4.3", ["--cp", "{checkpoint}"])
    found = eval(text, {"StreamSpec": dict})  # noqa: S307 - our own text

    assert found == {
        "name": "orders",
        "application": "/jobs/job.py",
        "home": "/home",
        "runtime": "spark-4.3",
        "application_args": ["--cp", "{checkpoint}"],
    }
    assert "application_args" not in spec_text("orders", "/j", "/home", "x", [])
