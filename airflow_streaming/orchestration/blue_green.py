"""
The cutover as a task group: green beside blue, judged, and then made live.

Look, ask a person, start green beside blue, let it catch up, watch it, run the author's checks,
compare what both have written, ask again, switch, soak, and keep or go back. Until the switch blue
is untouched; after it the way back stands open until the end of the soak. Whatever was begun comes
to its end: the task that settles it runs whatever became of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.sdk import TaskGroup

from airflow_streaming.core.cutover.terms import CompareTerms, ReadyTerms
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.core.upgrade.terms import SoakTerms
from airflow_streaming.cutover.pointers.port import Pointer
from airflow_streaming.operators.cutover import CutoverCheck
from airflow_streaming.orchestration import cutover_form, form
from airflow_streaming.orchestration._cutover_asked import (
    check_choices,
    check_moment,
    checks_of,
    pointers_of,
    some,
    streams_of,
)
from airflow_streaming.orchestration._cutover_path import CutoverPath, CutoverWishes
from airflow_streaming.orchestration.upgrade import KILLED_WORKERS


def blue_green(
    stream: StreamSpec | Sequence[StreamSpec],
    *,
    way: str = cutover_form.WAY_FROM_FORM,
    start: str = cutover_form.START_FROM_FORM,
    replay_from: str = cutover_form.REPLAY_FROM_FORM,
    compare: CompareTerms | Sequence[CompareTerms] = (),
    ready: ReadyTerms | None = None,
    soak: SoakTerms | None = None,
    pointers: Pointer | Sequence[Pointer] | Mapping[str, Pointer | Sequence[Pointer]] = (),
    checks: CutoverCheck | Sequence[CutoverCheck] = (),
    approvers: Sequence[str] = (),
    need_approval: bool | str = form.APPROVAL_FROM_FORM,
    promote: str = cutover_form.PROMOTE_FROM_FORM,
    finalise: str = "auto",
    approval_timeout: timedelta | None = timedelta(days=1),
    approval_notifiers: Sequence[Any] = (),
    dry_run: bool | str = form.DRY_RUN_FROM_FORM,
    retain_blue: timedelta = timedelta(days=1),
    keeps_blue_running: bool = True,
    deadlines: Mapping[str, timedelta] | None = None,
    sink_habits: Mapping[str, str] | None = None,
    conn_id: str = "spark_default",
    home_conn_id: str | None = None,
    backup_store: str | None = None,
    edits: Mapping[str, Any] = form.FROM_FORM,
    group_id: str = "blue_green",
) -> TaskGroup:
    """
    Run another version of a stream beside the live one, judge it, and make it live.

    In a dag with ``params=cutover_params(stream)`` the person who starts a run chooses; a dag
    without them gives the arguments. By default it is a dry run.

    :param stream: The stream as its keep-alive dag has it, or several that switch in one moment; the
        first one leads. All of them are in one home.
    :param way: ``parallel``: green writes an output of its own and consumers are led to it;
        ``handover``: green goes on in blue's output; templated.
    :param start: What green begins with: ``fresh``, ``cloned``, ``carried``, or ``by_gate`` to let
        the gates say; templated.
    :param replay_from: From when a fresh green reads, ISO 8601, as ``{replay_from}`` in the
        arguments of its script; computed when empty; templated.
    :param compare: How the outputs of which streams are compared; not at all when empty.
    :param ready: What green has to show before it may become live.
    :param soak: What green has to show after the switch.
    :param pointers: What consumers follow beside the home's own pointer, in their order; by stream
        where several switch together.
    :param checks: Called with a ``SideBySide`` while the outputs are compared; one that finds
        something wrong ends the cutover.
    :param approvers: Ids of the users who may answer; whoever starts a run may name fewer and not
        do without them. Empty: the form decides.
    :param need_approval: Ask a person before green is started; templated.
    :param promote: ``ask`` a person before the switch, or ``auto``: a ready green goes on by itself,
        and where nothing is proved a person is asked; templated.
    :param finalise: ``auto``: a good soak is the point of no return; ``ask`` a person for that too.
    :param approval_timeout: Silence for so long is a no.
    :param approval_notifiers: Notifiers that tell people they are asked.
    :param dry_run: Look and report, and do nothing; templated.
    :param retain_blue: How long blue's checkpoint and output are kept afterwards; a form may say
        another time.
    :param keeps_blue_running: Parallel outputs only: blue runs on through the soak, so that going
        back takes no time.
    :param deadlines: How long a state may last before it is given up, by its name, e.g.
        ``{"catching_up": timedelta(hours=3)}``; see ``core.cutover.terms.DEADLINES``.
    :param sink_habits: What a sink does with a batch id that it has seen, by the query's name.
    :param conn_id: Spark connection of the apache-spark provider.
    :param home_conn_id: Connection with credentials for the home.
    :param backup_store: URI of the backups; ``<home>/_backups`` when not given.
    :param edits: ``runtime``, ``application`` and ``conf`` to go to; templated.
    :param group_id: Prefix of the tasks.
    :raises SpecError: streams, choices, times, comparisons, checks, pointers or deadlines that cannot
        be, as far as they are no templates.
    """
    streams = streams_of(stream)
    check_choices(way=way, start=start, promote=promote, finalise=finalise)
    check_moment("replay_from", replay_from)
    wishes = CutoverWishes(
        streams=streams,
        conn_id=conn_id,
        home_conn_id=home_conn_id,
        backup_store=backup_store,
        approvers=tuple(approvers),
        need_approval=need_approval,
        dry_run=dry_run,
        finalise=finalise,
        approval_timeout=approval_timeout,
        approval_notifiers=tuple(approval_notifiers),
        pointers=pointers_of(pointers),
        checks=checks_of(checks),
        plan={
            "way": way,
            "start": start,
            "replay_from": replay_from,
            "ready": ready,
            "compare": some(compare),
            "soak": soak,
            "soak_minutes": form.SOAK_FROM_FORM,
            "promote": promote,
            "finalise": finalise,
            "retain_blue": retain_blue,
            "retain_hours": cutover_form.RETAIN_FROM_FORM,
            "keeps_blue_running": keeps_blue_running,
            "deadlines": deadlines,
            "sink_habits": sink_habits,
        },
        edits=dict(edits),
    )
    with TaskGroup(
        group_id,
        tooltip="Another version beside the live one, judged, and made live with a way back.",
        default_args=KILLED_WORKERS,  # type: ignore[arg-type] # attrs hides the type behind a converter
    ) as group:
        CutoverPath(wishes).build()
    return group
