"""
Run the old and the new version over the same batches and compare their results.

Both continue from the same pinned checkpoint, over batches with the same offsets. Where the logs
reach back to the first batch, the new version also runs from scratch over the same past and the
same batches; its rows are then correct. The comparison covers the rows of each batch and the state
after the last one, each as a bag: their number, and a digest independent of the order.

Equal state at the same offsets makes an answer final: later batches of the same code can only write
the same rows. For a query with state, rows alone prove nothing.

======================  ===========================================================================
answer                  when ======================
=========================================================================== same
rows and state are those of the old version, and of a run from scratch not revised             rows
and state are those of a run from scratch, or there is no state; the old version would have written
other rows settles                 state ended up as that of a run from scratch; rows before that
mix both versions wrong for good          state that no watermark ends is not that of a run from
scratch fails                   the new version failed where the old one got through undecided
anything else, with the reason ======================
===========================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from airflow_streaming.gates.findings import GateDecision, GateFinding, GateReport, report_of
from airflow_streaming.model.arguments.accepted import UNPROVED
from airflow_streaming.model.arguments.choices import Answer
from airflow_streaming.model.wire import Record

CLEAN: Final = frozenset({Answer.SAME, Answer.NOT_REVISED})
"""Answers that a policy may accept."""

_REMEDIES: Final = MappingProxyType(
    {
        Answer.SAME: "Deploy it as it is.",
        Answer.NOT_REVISED: "Tell the readers of the output which rows follow the new code.",
        Answer.SETTLES: "Tell the readers of the output which rows mix both versions.",
        Answer.WRONG_FOR_GOOD: "Start with a new checkpoint (blue-green).",
        Answer.FAILS: "Fix the named failure; the running version is not affected.",
        Answer.UNDECIDED: "Compare over more batches, or start with a new checkpoint (blue-green).",
    }
)

_SEVERITIES: Final = MappingProxyType(
    {
        Answer.SAME: GateDecision.ALLOWED,
        Answer.NOT_REVISED: GateDecision.ALLOWED_WITH_CONSEQUENCE,
        Answer.SETTLES: GateDecision.ALLOWED_WITH_CONSEQUENCE,
        Answer.WRONG_FOR_GOOD: GateDecision.NOT_ALLOWED,
        Answer.FAILS: GateDecision.NOT_ALLOWED,
        Answer.UNDECIDED: GateDecision.UNKNOWN,
    }
)

_Answered = tuple[Answer, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bag:
    """
    Rows without their order.

    :param digest: Of all rows; the same for the same rows, however often each of them comes.
    """

    rows: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRun:
    """
    The run of one version on its copy of the checkpoint.

    :param batches: Rows written, by batch; the held-back batches alone.
    :param inputs: Rows read, by batch.
    :param state: Its state after the last batch, by store; ``None`` if it could not be read, for
        the reason in ``unread``, a sentence.
    :param failure: Why it did not finish, a sentence; else empty.
    :param broke: The code or Spark failed; else it was stopped, or ran no batch.
    :param script_failure: Why the script failed although its query had run, a sentence; its driver
        would end with it.
    """

    batches: Mapping[int, Bag] = field(default_factory=dict)
    inputs: Mapping[int, int] = field(default_factory=dict)
    state: Mapping[str, Bag] | None = field(default_factory=dict)
    unread: str = ""
    failure: str = ""
    broke: bool = False
    script_failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedQuery:
    """
    The answer for one query.

    :param reason: Why, a sentence or two.
    :param batches: The held-back batches, in order.
    :param other_than_old: Batches in which the new version wrote other rows than the old one.
    :param other_than_fresh: Batches in which it wrote other rows than the run from scratch.
    :param from_scratch: The new version ran from scratch as well.
    :param not_seen: Limits of the comparison, a sentence each.
    """

    query: str
    answer: Answer
    reason: str
    batches: tuple[int, ...] = ()
    other_than_old: tuple[int, ...] = ()
    other_than_fresh: tuple[int, ...] = ()
    from_scratch: bool = False
    not_seen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared(Record):
    """
    The comparison of two versions of a script.

    :param seconds: How long it took, with copying and all starts of Spark.
    """

    KIND: ClassVar[str] = "compared_versions"

    subject: str
    queries: tuple[ComparedQuery, ...] = ()
    seconds: float = 0.0

    @property
    def report(self) -> GateReport:
        return report_of(map(_finding, self.queries))


class Kind(NamedTuple):
    """
    Known facts of a query before it runs.

    :param has_state: It keeps state, according to its plan or checkpoint.
    :param ends: The watermark ends all of its state; False if unknown.
    """

    has_state: bool
    ends: bool = False


def compare_runs(
    query: str,
    kind: Kind,
    old: SideRun,
    new: SideRun,
    fresh: SideRun | None = None,
    *,
    no_fresh: str = "",
) -> ComparedQuery:
    """
    Compare the runs of both versions.

    :param fresh: The new version from scratch; ``None`` where it was not run, for the reason in
        ``no_fresh``, a sentence.
    """
    held = tuple(sorted({*old.batches, *new.batches}))
    is_fresh = fresh is not None and not fresh.failure
    found = _Found(
        kind=kind,
        old=old,
        new=new,
        fresh=fresh if is_fresh else None,
        other_than_old=_differing(held, new, old),
        other_than_fresh=_differing(held, new, fresh) if fresh is not None and is_fresh else (),
    )
    answer, reason = _failed(found) or _nothing_proved(found) or _answer(found)
    failure = "" if fresh is None else fresh.failure
    return ComparedQuery(
        query=query,
        answer=answer,
        reason=reason,
        batches=held,
        other_than_old=found.other_than_old,
        other_than_fresh=found.other_than_fresh,
        from_scratch=is_fresh,
        not_seen=tuple(_not_seen(found, no_fresh or failure)),
    )


def findings_after(
    compared: Compared, gate: GateReport, accepted: Collection[Answer] = CLEAN
) -> tuple[GateFinding, ...]:
    """
    Return the gates' unknown findings after a comparison, the worst first.

    An unknown finding is resolved only if its query was compared and has an accepted answer. No
    query resolves an unknown of the whole script.

    :param accepted: Answers that the policy accepts.
    """
    found = [_finding(query) for query in compared.queries]
    answers = {query.query: query.answer for query in compared.queries}
    found = [
        replace(one, severity=GateDecision.UNKNOWN)
        if one.severity.weight < GateDecision.UNKNOWN.weight and answers[one.query] not in accepted
        else one
        for one in found
    ]
    undecided = {f.query: f for f in gate.findings if f.severity is GateDecision.UNKNOWN}
    found += [
        _not_compared(undecided[query]) for query in sorted(undecided.keys() - answers.keys())
    ]
    return report_of(found).findings


def findings_of_migration(
    compared: Compared, queries: Collection[str], *, is_accepted: bool
) -> tuple[GateFinding, ...]:
    """
    Return the findings of a comparison on queries with migrated state, the worst first.

    :param is_accepted: A user accepts rows that a run from scratch does not confirm. A failure stays refused.
    """
    found = (
        _of_migration(one, is_accepted=is_accepted)
        for one in compared.queries
        if one.query in queries
    )
    return report_of(found).findings


def _of_migration(one: ComparedQuery, *, is_accepted: bool) -> GateFinding:
    finding = _finding(one)
    if one.answer in CLEAN or one.answer is Answer.FAILS:
        return finding
    unproved = replace(finding, rule=UNPROVED, severity=GateDecision.ALLOWED_WITH_CONSEQUENCE)
    if is_accepted:
        return replace(unproved, message=f"{finding.message} A user has accepted this.", remedy="")
    return replace(
        unproved,
        severity=GateDecision.NOT_ALLOWED,
        remedy=f"If the consequences of the migration explain this, accept {UNPROVED}; else start with a new "
        "checkpoint (blue-green).",
    )


class _Found(NamedTuple):
    kind: Kind
    old: SideRun
    new: SideRun
    fresh: SideRun | None
    other_than_old: tuple[int, ...]
    other_than_fresh: tuple[int, ...]

    @property
    def has_state(self) -> bool:
        # A version may begin to keep state where the checkpoint and the old plan have none.
        return self.kind.has_state or self.old.state != {} or self.new.state != {}

    @property
    def is_as_old(self) -> bool:
        return not self.other_than_old and _same_state(self.new, self.old)

    @property
    def has_fresh_state(self) -> bool:
        return self.fresh is not None and _same_state(self.new, self.fresh)


def _differing(held: Sequence[int], one: SideRun, other: SideRun) -> tuple[int, ...]:
    return tuple(batch for batch in held if one.batches.get(batch) != other.batches.get(batch))


def _same_state(one: SideRun, other: SideRun) -> bool:
    return one.state is not None and one.state == other.state


def _failed(found: _Found) -> _Answered | None:
    if found.new.broke and not found.old.failure:
        return (
            Answer.FAILS,
            f"The new version failed where the old one got through: {found.new.failure}",
        )
    # The new version runs the batches of the old one, so that without these neither does any.
    for name, run in (("old", found.old), ("new", found.new)):
        if run.failure:
            return Answer.UNDECIDED, f"The {name} version did not get through: {run.failure}"
    if found.old.batches.keys() != found.new.batches.keys():
        return Answer.UNDECIDED, "The two versions did not run the same batches."
    return _script_failed(found.old.script_failure, found.new.script_failure)


def _script_failed(old: str, new: str) -> _Answered | None:
    if not new:
        return None
    if not old:
        return Answer.FAILS, f"The new script failed after its query had run: {new}"
    # The rehearsal itself may be the cause, which ends every query and leaves sinks out.
    return Answer.UNDECIDED, f"Both scripts failed after their query had run, the new one: {new}"


def _nothing_proved(found: _Found) -> _Answered | None:
    if not any(found.old.inputs.values()) and not any(found.new.inputs.values()):
        return Answer.UNDECIDED, "No held-back batch read a row, so nothing is proved."
    unread = next((side for side in (found.old, found.new) if side.state is None), None)
    if found.has_state and unread is not None:
        why = f": {unread.unread.rstrip('.')}." if unread.unread else "."
        return Answer.UNDECIDED, f"Later rows are not known, for the state could not be read{why}"
    return None


def _answer(found: _Found) -> _Answered:
    if found.fresh is None:
        return _without_fresh(found)
    if found.has_state and not found.has_fresh_state:
        return _other_state(found)
    if found.other_than_fresh:
        if not found.has_state:
            return (
                Answer.UNDECIDED,
                "Without state the rows should equal a run from scratch, but they differ.",
            )
        return (
            Answer.SETTLES,
            "The state finally equals a run from scratch; earlier rows mix both versions.",
        )
    if found.is_as_old:
        return Answer.SAME, "Rows and state equal the old version and a run from scratch."
    return (
        Answer.NOT_REVISED,
        "Rows and state equal a run from scratch; the old version would write other rows.",
    )


def _without_fresh(found: _Found) -> _Answered:
    if found.is_as_old:
        return Answer.SAME, "Rows and state equal the old version."
    if not found.has_state:
        return (
            Answer.NOT_REVISED,
            "The rows differ from the old version's, and the query has no state to mix both.",
        )
    return (
        Answer.UNDECIDED,
        (
            "Rows or state differ from the old version's, and without a run from scratch it is "
            "unknown whether they are right."
        ),
    )


def _other_state(found: _Found) -> _Answered:
    if found.kind.ends:
        return (
            Answer.UNDECIDED,
            (
                "The state still differs from a run from scratch; the watermark may end the "
                "difference, but did not within these batches."
            ),
        )
    return (
        Answer.WRONG_FOR_GOOD,
        "The state differs from a run from scratch, and no watermark ends it.",
    )


def _not_seen(found: _Found, no_fresh: str) -> Iterator[str]:
    yield "Functions of `foreach` and `foreachBatch`, and the sink, were not run."
    yield "Keys and values that are not in the held-back batches were not tried."
    if found.fresh is None:
        why = f": {no_fresh}" if no_fresh else "."
        yield f"The new version was not run from scratch{why}"
    if found.has_state:
        yield "Timers and timeouts of processing time did not come due."


def _finding(found: ComparedQuery) -> GateFinding:
    counts = (
        f"{len(found.batches)} batches, {len(found.other_than_old)} differ from the old version's"
    )
    if found.from_scratch:
        counts += f", {len(found.other_than_fresh)} from a run from scratch"
    return GateFinding(
        rule=f"rehearsal.{found.answer}",
        severity=_SEVERITIES[found.answer],
        message=" ".join((found.reason, "Not seen:", *found.not_seen)),
        query=found.query,
        evidence=f"the comparison over {counts}",
        remedy=_REMEDIES[found.answer],
    )


def _not_compared(finding: GateFinding) -> GateFinding:
    what = f"Query {finding.query!r}" if finding.query else "The script as a whole"
    return GateFinding(
        rule="rehearsal.not_compared",
        severity=GateDecision.UNKNOWN,
        message=f"{what} was not compared, so {finding.rule} stays unknown.",
        query=finding.query,
        evidence="the comparison",
        remedy=finding.remedy,
    )
