"""Reports of the gates and of a script's plan, and the page of all rules."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from airflow_streaming.changes.judging.methods import WAY_RULES
from airflow_streaming.gates.change.judge import CHANGE_RULES
from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, Pattern
from airflow_streaming.gates.rules import Rule
from airflow_streaming.gates.start_checks.table import all_checks
from airflow_streaming.gates.state_partitions import RULES as REPARTITION_RULES
from airflow_streaming.gates.version.judge import RULES as VERSION_RULES
from airflow_streaming.model.jobs.migration import Migrated
from airflow_streaming.model.plan.schema import Column, column_texts
from airflow_streaming.model.plan.text import texts_of
from airflow_streaming.model.spark.plan import OperatorPlan, QueryPlan, ScriptPlan
from airflow_streaming.reports.escape import shortened
from airflow_streaming.reports.report import (
    Block,
    Finding,
    Heading,
    Paragraph,
    Report,
    Tone,
    Verdict,
    Words,
    code,
    counted,
    facts,
    report_of,
    table,
    value,
)

DECISION_WORDS: Final = {
    GateDecision.ALLOWED: "allowed",
    GateDecision.ALLOWED_WITH_CONSEQUENCE: "allowed, with a consequence",
    GateDecision.UNKNOWN: "unknown: rehearse it",
    GateDecision.NOT_ALLOWED: "not allowed",
}
TONES: Final = {
    GateDecision.ALLOWED: Tone.GOOD,
    GateDecision.ALLOWED_WITH_CONSEQUENCE: Tone.WARNING,
    GateDecision.UNKNOWN: Tone.UNKNOWN,
    GateDecision.NOT_ALLOWED: Tone.BAD,
}
BLOCKED: Final = "Blocked; no change was made. Follow the findings, then run the preflight again."
PATTERN_WORDS: Final = {
    Pattern.NOTHING_TO_DO: "nothing to do",
    Pattern.RESTART_IN_PLACE: "restart in place, on the same checkpoint",
    Pattern.ROLLING_RESTART: "rolling restart, on the same checkpoint",
    Pattern.CARRIED_OVER: "new checkpoint that starts at the old one's positions",
    Pattern.BLUE_GREEN: "blue-green, with a new checkpoint",
}

ALL_RULES: Final = (*CHANGE_RULES, *VERSION_RULES, *WAY_RULES, *REPARTITION_RULES)
"""Every rule of the change gate, of the version gate, and of the methods of a cutover and of
state partitions."""


def gate_report(found: GateReport) -> Report:
    """Return a gate's report: the decision first, then the findings, the worst first."""
    return report_of((decision_of(found), *findings_of(found)))


def decision_of(found: GateReport) -> Verdict:
    """Return the decision of a gate, with how to deploy where it says it."""
    how = "" if found.pattern is None else how_to_deploy(found.decision, found.pattern)
    return Verdict(
        subject="Decision",
        word=DECISION_WORDS[found.decision],
        tone=TONES[found.decision],
        reason=how,
    )


def findings_of(found: GateReport) -> Iterator[Block]:
    """Yield the findings of a gate, the worst first."""
    if not found.findings:
        yield Paragraph("No findings.")
    yield from map(finding_of, found.findings)


def how_to_deploy(decision: GateDecision, pattern: Pattern) -> str:
    """Return a pattern as a sentence; an unknown change needs a rehearsal before it is deployed."""
    when = ", but not before a rehearsal" if decision is GateDecision.UNKNOWN else ""
    return f"How to deploy it{when}: {PATTERN_WORDS[pattern]}."


def finding_of(found: GateFinding) -> Finding:
    """Return a finding of a gate or of a rehearsal, with the values that it compares shortened."""
    return Finding(
        label=DECISION_WORDS[found.severity].partition(":")[0],
        tone=TONES[found.severity],
        rule=found.rule,
        subject=("in query ", value(found.query)) if found.query else "",
        message=found.message,
        details=tuple(_details(found)),
    )


def _details(found: GateFinding) -> Iterator[tuple[str, Words]]:
    for name, told in (("now", found.old), ("after", found.new)):
        if told:
            yield name, code(shortened(told))
    if found.evidence:
        yield "evidence", found.evidence
    if found.remedy:
        yield "what to do", found.remedy
    if found.migration:
        yield "migration", f"not allowed as it is; can be migrated. {' '.join(found.migration)}"
    if found.no_migration:
        yield "no migration", found.no_migration


def rules_report() -> Report:
    """Return the page of all rules: a table for each theme."""
    return report_of(_rules())


def _rules() -> Iterator[Block]:
    yield Heading("The rules of the gates", 1)
    yield Paragraph(
        "Printed by `airflow-streaming gate rules`. A rule has one severity: where the same edit is "
        "harmless in one place and harmful in another, there are two. `gates.md` describes how to run "
        "the gates."
    )
    for theme, rules in groupby(sorted(ALL_RULES, key=lambda rule: rule.name), key=_theme):
        yield Heading(theme.replace("_", " "), 2)
        yield table(("rule", "decides", "says", "known from", "what to do"), map(_rule_row, rules))
    yield from _start_checks()


def _start_checks() -> Iterator[Block]:
    yield Heading("start checks", 2)
    yield Paragraph(
        "The checks of `spark.refuses`: what Spark's own sources and sinks require when a query starts, or in its "
        "first batch. Other sources and sinks are not checked."
    )
    rows = ((code(c.name), c.part.value, ", ".join(c.of), c.says, c.source) for c in all_checks())
    yield table(("check", "part", "formats", "says", "known from"), rows)


def _rule_row(rule: Rule) -> tuple[Words, ...]:
    decides = rule.severity.value.replace("_", " ")
    return code(rule.name), decides, rule.sentence, rule.source, rule.remedy


def _theme(rule: Rule) -> str:
    return rule.name.partition(".")[0]


def plan_report(planned: ScriptPlan) -> Report:
    return report_of(_blocks(planned))


def _blocks(planned: ScriptPlan) -> Iterator[Block]:
    number = len(planned.queries)
    queries = counted(number, "query", "queries") if number else "no queries"
    yield Paragraph((value(planned.application), f" on Spark {planned.spark}: {queries}"))
    if planned.problem:
        yield Paragraph(("The script did not finish: ", value(planned.problem)))
    elif not number:
        yield Paragraph("The script starts no query. With other arguments it may start some.")
    for query in planned.queries:
        yield Heading(value(query.query))
        yield facts(_facts(query))


def _facts(query: QueryPlan) -> Iterator[tuple[Words, Words]]:
    sink = query.sink
    yield "writes", _values(sink.sink, sink.format, sink.target)
    yield "output mode", value(query.output_mode)
    yield "processing trigger", value(query.processing_trigger)
    yield "columns", value(_columns(sink.schema))
    for number, source in enumerate(query.sources):
        yield f"source {number}", _values(source.source, source.name, source.format, *source.paths)
    for number, operator in enumerate(query.operators):
        yield f"operator {number}", value(_operator(operator))
    for mark in query.watermarks:
        yield "watermark", value(f"{mark.column}, {mark.delay_ms} ms late")
    for note in query.notes:
        yield "note", note


def migrated_report(found: Migrated) -> Report:
    """Return the result of a migration: its proof, then its consequences."""
    return report_of(_migrated(found))


def _migrated(found: Migrated) -> Iterator[Block]:
    yield Verdict(
        subject="Migration",
        word="proved",
        tone=Tone.GOOD,
        reason=f"The copy continues after batch {found.batch}; rehearse the new code on it.",
    )
    yield Paragraph(("Migrated checkpoint: ", value(found.uri)))
    if found.proofs:
        rows = ((str(one.operator), _count(one.before), _count(one.after)) for one in found.proofs)
        yield table(("operator", "rows before", "rows after"), rows)
    yield from map(Paragraph, found.consequences)


def _count(rows: int | None) -> str:
    return "carried whole" if rows is None else str(rows)


def _values(*text: str) -> Words:
    return value(" ".join(filter(None, text)))


def _operator(operator: OperatorPlan) -> str:
    told = [
        operator.sort.value,
        operator.join_type,
        texts_of(operator.key_expressions),
        texts_of(operator.values),
        column_texts(operator.state_columns),
        *(f"{one.name}: {one.text}" for one in operator.variables),
    ]
    return "; ".join(filter(None, told))


def _columns(schema: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in schema)
