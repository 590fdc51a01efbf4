from __future__ import annotations

from typing import Any

import pytest

from airflow_streaming.changes.upgrade.rollback_plan import plan_rollback
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, report_of
from airflow_streaming.model.arguments.choices import SinkReplaySemantics
from airflow_streaming.model.records.upgrade import (
    HABITS,
    RollbackMethod,
    RollbackPlan,
    SinkFacts,
    sink_facts_of,
)
from airflow_streaming.model.spark.plan import (
    OperatorKind,
    OperatorPlan,
    QueryPlan,
    SinkPlan,
    SourcePlan,
)

FITS = GateReport()
REWIND, RESUME, NONE = RollbackMethod.REWIND, RollbackMethod.RESUME, RollbackMethod.NONE


def report(severity: GateDecision) -> GateReport:
    return report_of([GateFinding(rule="a.rule", severity=severity, message="It does not fit.")])


def facts(habit: SinkReplaySemantics, sink: str = "foreachbatch", **changes: Any) -> SinkFacts:
    given = {"query": "counts", "target": "/out/counts", **changes}
    return SinkFacts(habit=habit, sink=sink, **given)


def way(*sinks: SinkFacts, back: GateReport = FITS, **asked: Any) -> RollbackPlan:
    return plan_rollback(sinks, back=back, **asked)


MISFIT = report(GateDecision.NOT_ALLOWED)
FILE = facts(SinkReplaySemantics.FILE_LOG, "file")
KAFKA = facts(SinkReplaySemantics.APPENDS, "kafka", query="topic", target="events")


# What is done with one sink: alone; with a function; with replay accepted; with both.
TABLE = [
    (FILE, (REWIND, REWIND, REWIND, REWIND)),
    (facts(SinkReplaySemantics.OVERWRITES), (REWIND, REWIND, REWIND, REWIND)),
    (facts(SinkReplaySemantics.REMEMBERS), (NONE, REWIND, NONE, REWIND)),
    (facts(SinkReplaySemantics.UNKNOWN), (NONE, REWIND, NONE, REWIND)),
    (facts(SinkReplaySemantics.APPENDS), (NONE, REWIND, REWIND, REWIND)),
    (facts(SinkReplaySemantics.REMEMBERS, "table"), (NONE, REWIND, NONE, REWIND)),
    (facts(SinkReplaySemantics.NOTHING, "console"), (REWIND, REWIND, REWIND, REWIND)),
    (KAFKA, (NONE, NONE, REWIND, REWIND)),
]


@pytest.mark.parametrize(("sink", "ways"), TABLE, ids=[f"{s.sink}-{s.habit}" for s, _ in TABLE])
def test_each_sink_has_its_way_back_when_formats_do_not_fit_backwards(
    sink: SinkFacts, ways: tuple[RollbackMethod, ...]
) -> None:
    asked = [(False, False), (True, False), (False, True), (True, True)]
    found = [
        way(sink, back=MISFIT, has_rewinder=rewinder, accepts_replay=replay)
        for rewinder, replay in asked
    ]
    assert tuple(plan.way for plan in found) == ways
    assert [bool(plan.refused) for plan in found] == [way is NONE for way in ways]


@pytest.mark.parametrize(("sink", "ways"), TABLE, ids=[f"{s.sink}-{s.habit}" for s, _ in TABLE])
def test_what_cannot_be_rewound_is_resumed_where_all_fits_backwards(
    sink: SinkFacts, ways: tuple[RollbackMethod, ...]
) -> None:
    expected = RESUME if ways[0] is NONE else REWIND
    found = way(sink, code_back=report(GateDecision.ALLOWED_WITH_CONSEQUENCE))
    assert (found.way, found.refused) == (expected, "")
    assert ("stay" in found.reason) is (expected is RESUME)


@pytest.mark.parametrize("severity", list(GateDecision))
@pytest.mark.parametrize("gate", ["back", "code_back"])
def test_nothing_is_resumed_unless_both_gates_say_that_it_fits(
    gate: str, severity: GateDecision
) -> None:
    asked: dict[str, Any] = {"back": FITS, gate: report(severity)}
    found = plan_rollback([facts(SinkReplaySemantics.UNKNOWN)], **asked)
    fits = severity in (GateDecision.ALLOWED, GateDecision.ALLOWED_WITH_CONSEQUENCE)
    assert found.way is (RESUME if fits else NONE)
    assert ("It does not fit." in found.reason) is not fits


@pytest.mark.parametrize(
    ("sinks", "said"),
    [
        ([FILE, facts(SinkReplaySemantics.FILE_LOG, "file", query="other")], "shares its output"),
        ([facts(SinkReplaySemantics.FILE_LOG, "file", target="")], "not known in full"),
        (
            [facts(SinkReplaySemantics.OVERWRITES, cannot_reread="A socket cannot be read again.")],
            "A socket",
        ),
        (
            [facts(SinkReplaySemantics.OVERWRITES, own_checkpoint="/mine")],
            "where the script put it (/mine)",
        ),
        ([], "sinks are unknown"),
    ],
    ids=["shared output", "relative output", "source forgets", "own checkpoint", "no plan"],
)
def test_what_makes_a_rewind_impossible_is_found_beforehand(
    sinks: list[SinkFacts], said: str
) -> None:
    found = plan_rollback(sinks, back=MISFIT, has_rewinder=True, accepts_replay=True)
    assert found.way is NONE
    assert said in found.reason
    assert "blue-green" in found.refused


def test_one_sink_without_a_way_back_decides_for_the_whole_stream() -> None:
    found = way(FILE, KAFKA, back=MISFIT)
    assert found.way is NONE
    assert "Query 'topic' appends (kafka events)" in found.reason
    assert found.refused.startswith("Accept duplicate rows: accept=rollback.replay; or run")


@pytest.mark.parametrize(
    ("sinks", "asked", "said"),
    [
        ([FILE], {}, []),
        ([facts(SinkReplaySemantics.OVERWRITES)], {}, ["under the same ids"]),
        ([facts(SinkReplaySemantics.OVERWRITES)], {"has_rewinder": True}, []),
        ([KAFKA, FILE], {"accepts_replay": True}, ["once more (kafka events)"]),
        (
            [KAFKA, facts(SinkReplaySemantics.OVERWRITES)],
            {"accepts_replay": True},
            ["once more (kafka events)", "under the same ids"],
        ),
    ],
    ids=["files", "overwrites", "overwrites, taken back", "kafka", "both"],
)
def test_what_comes_twice_is_said(
    sinks: list[SinkFacts], asked: dict[str, bool], said: list[str]
) -> None:
    found = plan_rollback(sinks, back=FITS, **asked)
    assert found.way is REWIND
    assert all(words in found.replay for words in said)
    assert bool(found.replay) is bool(said)


def test_state_that_stays_is_said() -> None:
    stateful = way(facts(SinkReplaySemantics.UNKNOWN, is_stateful=True))
    assert "and so does its effect on the state" in stateful.reason
    assert "state" not in way(facts(SinkReplaySemantics.UNKNOWN)).reason


def plan(
    query: str = "counts", sink: str = "file", target: str = "/out", **changes: Any
) -> QueryPlan:
    return QueryPlan(
        query=query,
        spark="4.3.0",
        output_mode="append",
        sink=SinkPlan(sink=sink, target=target),
        **changes,
    )


@pytest.mark.parametrize(
    ("sink", "habit"),
    [
        *HABITS.items(),
        ("foreachbatch", SinkReplaySemantics.UNKNOWN),
        ("foreach", SinkReplaySemantics.UNKNOWN),
    ],
    ids=[*HABITS, "foreachbatch", "foreach"],
)
def test_the_sort_of_sink_tells_its_habit(sink: str, habit: SinkReplaySemantics) -> None:
    (found,) = sink_facts_of([plan(sink=sink)])
    assert (found.sink, found.habit) == (sink, habit)


def test_what_the_author_declares_stands_above_what_is_likely() -> None:
    plans = [plan(sink="foreachbatch"), plan("other", sink="delta")]
    habits = {"counts": SinkReplaySemantics.OVERWRITES, "other": SinkReplaySemantics.APPENDS}
    assert [f.habit for f in sink_facts_of(plans, habits)] == list(habits.values())


def test_a_file_sinks_log_cannot_be_declared_away() -> None:
    (found,) = sink_facts_of([plan()], {"counts": SinkReplaySemantics.OVERWRITES})
    assert found.habit is SinkReplaySemantics.FILE_LOG


@pytest.mark.parametrize(
    ("habits", "said"),
    [
        ({"nobody": SinkReplaySemantics.APPENDS}, "query 'nobody', which there is not"),
        ({"counts": SinkReplaySemantics.UNKNOWN}, "cannot be declared as 'unknown'"),
        ({"counts": SinkReplaySemantics.FILE_LOG}, "cannot be declared as 'file_log'"),
    ],
    ids=["no such query", "unknown", "file log"],
)
def test_an_odd_declaration_is_refused(habits: dict[str, SinkReplaySemantics], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sink_facts_of([plan()], habits)


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("/out/a b", "/out/a b"),
        ("file:/out", "file:///out"),
        ("file:///out", "file:///out"),
        ("s3a://bucket/out", "s3a://bucket/out"),
        ("out", ""),
    ],
    ids=["path", "one slash", "three slashes", "object store", "relative"],
)
def test_the_output_of_a_file_sink_is_a_full_uri(target: str, found: str) -> None:
    (facts,) = sink_facts_of([plan(target=target)])
    assert facts.target == found


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        (["counts"], ""),
        ([""], ""),
        (["counts", "late"], "query 'late'"),
        (["counts", ""], "the query"),
    ],
    ids=["all known", "one without a name", "one unknown", "a nameless one too many"],
)
def test_every_query_with_a_checkpoint_is_put_back_or_none(queries: list[str], said: str) -> None:
    found = way(FILE, queries=queries)
    assert found.way is (NONE if said else REWIND)
    assert said in found.reason


def test_sources_that_forget_and_state_are_seen() -> None:
    plans = [
        plan(sources=(SourcePlan(source="socket"),)),
        plan("b", sources=(SourcePlan(source="file", options={"cleansource": "ARCHIVE"}),)),
        plan("c", sources=(SourcePlan(source="file", options={"cleansource": "off"}),)),
        plan("d", operators=(OperatorPlan(sort=OperatorKind.AGGREGATE),)),
    ]
    found = sink_facts_of(plans)
    assert [bool(f.cannot_reread) for f in found] == [True, True, False, False]
    assert "cleanSource=archive" in found[1].cannot_reread
    assert [f.is_stateful for f in found] == [False, False, False, True]


@pytest.mark.parametrize(
    ("chosen", "own"),
    [
        ("", ""),
        ("/home/orders/checkpoints/000001/counts", ""),
        ("file:/home/orders/checkpoints/000001/counts", ""),
        ("/elsewhere/counts", "/elsewhere/counts"),
        ("/home/orders/checkpoints/000001", "/home/orders/checkpoints/000001"),
    ],
    ids=["none", "ours", "ours in Hadoop's words", "elsewhere", "the folder of all"],
)
def test_a_checkpoint_that_the_script_chose_is_told_from_ours(chosen: str, own: str) -> None:
    ours = "/home/orders/checkpoints/000001"
    (found,) = sink_facts_of([plan(checkpoint=chosen)], checkpoint=ours)
    assert found.own_checkpoint == own
