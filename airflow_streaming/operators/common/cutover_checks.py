"""Checks and comparisons that an engine runs on behalf of a task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_streaming.changes.judging.green import Judgment, judge_reports
from airflow_streaming.changes.judging.lane_figures import bound_of
from airflow_streaming.changes.pointers.pointer import Pointer
from airflow_streaming.changes.topic_connection import Launched
from airflow_streaming.checkpoints.progress import Progress
from airflow_streaming.home.consumers import live
from airflow_streaming.home.home import Home, StreamHome
from airflow_streaming.model.arguments.calls import name_of, run
from airflow_streaming.model.arguments.choices import StartWay
from airflow_streaming.model.arguments.terms import CompareTerms
from airflow_streaming.model.jobs.comparison import Bound, CompareReport
from airflow_streaming.model.names import base_of
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.cutover_table import CUTOVER, CutoverState
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.spark.failures import presentable
from airflow_streaming.model.spark.plan import KAFKA
from airflow_streaming.model.spark.secrets import REDACTED
from airflow_streaming.operators.common.compared_topics import Lane, compare_lanes, in_flight
from airflow_streaming.options import CutoverCheck, SideBySide
from airflow_streaming.spark_jobs.compare import compare

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.hooks.stream import SparkStreamHook
    from airflow_streaming.operators.common.cutover_lanes import DagLanes
    from airflow_streaming.spark_jobs.runner import Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """
    The result of a check over all streams of a cutover.

    :param passed: ``None`` when the check raised an error.
    """

    passed: bool | None
    reason: str


def answer_of(check: CutoverCheck, pairs: Iterable[SideBySide]) -> Answer:
    """Return the result of a check; the first stream that fails it decides."""
    name = name_of(check)
    for pair in pairs:
        try:
            said = run(check, pair)
        except Exception as err:  # noqa: BLE001 - an exception of an author's code proves nothing
            told = presentable(f"{type(err).__name__}: {err}")
            return Answer(passed=None, reason=f"Check {name!r} raised {told}")
        if said is not None and said is not True and said != "":
            wrong = said if isinstance(said, str) else "it returned False."
            return Answer(passed=False, reason=f"Check {name!r} of stream {pair.stream!r}: {wrong}")
    return Answer(passed=True, reason=f"Check {name!r} has passed.")


class CheckFailed(Exception):
    """A check raised an error; the next attempt of the task runs it again."""


def unanswered(
    checks: Sequence[CutoverCheck], home: StreamHome, change: int
) -> Iterator[CutoverCheck]:
    """Yield the checks that a cutover in ``comparing`` waits for; none in any other state."""
    history = home.steps(change)
    if CUTOVER.state_of(history) is not CutoverState.COMPARING:
        return
    known = home.check_results(change, history[-1].number)
    yield from (check for check in checks if name_of(check) not in known)


def is_last_try(context: Context) -> bool:
    """Tell whether Airflow gives the task no try after this one."""
    ti = context["ti"]
    return bool(ti.try_number > (ti.max_tries or 0))


class Comparing:
    """
    Compares two outputs with green's own Spark, and keeps the reports for a page.

    :param complete_from: By stream, the event time from which a fresh green is complete.
    :param heard: Called with every report.
    """

    def __init__(
        self,
        lanes: DagLanes,
        *,
        complete_from: Mapping[str, datetime],
        progress: Progress,
        heard: Callable[[CompareReport], None],
    ) -> None:
        self._lanes, self._complete_from = lanes, complete_from
        self._progress, self._heard = progress, heard

    def __call__(self, terms: CompareTerms, blue: Deployment, green: Deployment) -> Judgment:
        """Compare both outputs and judge the report."""
        if terms.format.lower() == KAFKA:
            report = self._compare_topics(terms, blue, green)
            self._heard(report)
            return judge_reports([report])
        hook = self._lanes.hook(green.stream)
        # The batches are read first, so that their rows are there when the outputs are opened.
        bound = self._bound(self._home(blue), self._home(green), green)
        report = compare(
            *(terms, blue, green, hook.runtime(green.runtime)),
            bound=bound,
            program=_program(hook, green),
            progress=self._progress,
        )
        self._heard(report)
        return judge_reports([report])

    def _compare_topics(
        self, terms: CompareTerms, blue: Deployment, green: Deployment
    ) -> CompareReport:
        program = self._lanes.hook(green.stream).program(green, b"")
        return compare_lanes(
            terms,
            Lane(deployment=blue, home=self._home(blue)),
            Lane(
                deployment=green,
                home=self._home(green),
                is_fresh=self._is_fresh(green),
                complete_from=self._complete_from.get(base_of(green.stream)),
            ),
            Launched(conf=program.conf, env=program.env),
        )

    def _bound(self, blue: StreamHome, green: StreamHome, deployment: Deployment) -> Bound:
        since = self._since(deployment)
        return bound_of(
            _batches(blue, deployment.created_at),
            _batches(green, deployment.created_at),
            since=since,
            from_beginning=since is None and self._is_fresh(deployment),
            in_flight=in_flight(blue, green),
        )

    def _since(self, green: Deployment) -> datetime | None:
        known = self._complete_from.get(base_of(green.stream))
        if known is not None or not green.replay_from:
            return known
        return datetime.fromisoformat(green.replay_from)

    def _is_fresh(self, green: Deployment) -> bool:
        """Tell whether a green has read its sources from the beginning."""
        change = self._lanes.home.unfinished_change()
        terms = None if change is None else self._lanes.home.cutover_terms(change)
        pairs = () if terms is None else terms.pairs
        return any(pair.green == green.stream and pair.start is StartWay.FRESH for pair in pairs)

    def _home(self, deployment: Deployment) -> StreamHome:
        return self._lanes.hook(deployment.stream).lane(deployment.stream).home


def _batches(home: StreamHome, since: datetime) -> list[BatchProgress]:
    """Return the batches of a lane's driver since green began: late rows before say nothing of it."""
    epoch = home.newest_epoch()
    found = [] if epoch is None else home.read_progress(epoch.number)
    return [batch for batch in found if _is_since(batch, since)]


def _is_since(batch: BatchProgress, since: datetime) -> bool:
    try:
        return datetime.fromisoformat(batch.at) >= since
    except (ValueError, TypeError):
        return False


def _program(hook: SparkStreamHook, green: Deployment) -> Program | None:
    # Only where it takes a secret to read the outputs, which no record has.
    program = hook.program(green, b"")
    if REDACTED not in green.conf.values() and program.conf.keys() == green.conf.keys():
        return None
    return replace(program, application="", arguments=())


def lay(pointers: Mapping[str, Pointer], base: StreamHome) -> list[str]:
    """
    Lead consumers to the live lane, by pointers that are new or were removed.

    So consumers have a pointer to follow, and to return to, before the first switch; and a pointer
    that cannot be moved is found before the cutover begins. A pointer that shows the live lane
    already stays.

    :param pointers: By name in the terms of the cutover.
    :param base: Records of the stream that leads.
    :returns: Names of the moved pointers; a repeated call is harmless.
    :raises PointerRefused: the pointer was not written by us, or leads to another stream.
    :raises PointerFailed: it could not be moved now; try again.
    """
    home, laid = Home(base.store), []
    for name, pointer in pointers.items():
        stream = name.rpartition("/")[0] or base.name
        now, records = live(home, stream), home.stream(stream).live_records()
        # An abandoned switch has a later record, and the pointer shows that lane.
        if records and records[-1].number != now.number:
            continue
        pointer.move(now, now)
        laid.append(name)
    return laid
