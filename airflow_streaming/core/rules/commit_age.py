"""
How long a query has had work without committing a batch.

"No new commit" is what a query without data looks like too, so only the time counts in which it had
work: that of the batch in work, or since the last commit while data waits. Silence of a source is
the business of a rule on the input rate. A commit clears the rule at once; nothing could prove
better that the query commits.
"""

from __future__ import annotations

from airflow_streaming.core.rules import words as rule_words
from airflow_streaming.core.rules.rule import Finding, HealthRule, RuleState
from airflow_streaming.core.rules.timeline import Moment, Timeline
from airflow_streaming.core.status import QueryStatus


def commit_age_finding(
    rule: HealthRule, query: QueryStatus, moment: Moment, line: Timeline
) -> Finding:
    """Return what a rule on the time since a commit says of a query."""
    age = 0.0 if moment.is_idle else _age(query)
    who = rule_words.subject(query.name)
    state, began = RuleState.UNKNOWN, None
    if age is None:
        reason = f"The driver has not told how long query {query.name!r} has been at its batch."
    elif not rule.is_bad(age):
        state, began = RuleState.CLEAR, moment.now - age
        figure = None if moment.is_idle else age
        reason = rule_words.known(rule, who, state, figure, 0.0)
    else:
        state, began = _of_bad(rule, age, moment.now)
        reason = rule_words.known(rule, who, state, age, age)
    return Finding(
        rule=rule.name,
        state=state,
        severity=rule.severity,
        query=query.name,
        reason=reason,
        figure=age,
        bound=rule.bound,
        since=None if began is None else line.clock(began),
    )


def _age(query: QueryStatus) -> float | None:
    if not query.processing:
        return query.committed_ago_s if query.ready_for_s is None else query.ready_for_s
    if query.batch_for_s is None or query.committed_ago_s is None:
        return query.batch_for_s
    return min(query.batch_for_s, query.committed_ago_s)


def _of_bad(rule: HealthRule, age: float, now: float) -> tuple[RuleState, float]:
    bad_for, needed = age - rule.bound, rule.sustained_for.total_seconds()
    if bad_for >= needed:
        return RuleState.FIRING, now - bad_for + needed
    return RuleState.PENDING, now - bad_for
