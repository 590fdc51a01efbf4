"""The form of a cutover, and the author's arguments of a cutover in one shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, TypeVar

from airflow.sdk import Param

from airflow_streaming.changes.pointers.pointer import Pointer
from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.choices import SwitchMethod
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.model.names import check_is_stream
from airflow_streaming.operators.common.form_edits import LONGEST
from airflow_streaming.options import Approval, CutoverApproval, GreenStart, plain
from airflow_streaming.orchestration import form
from airflow_streaming.orchestration.form import (
    accept_param,
    application_param,
    approval_param,
    approvers_param,
    begin_param,
    conf_param,
    dry_run_param,
    runtime_param,
    soak_param,
)
from airflow_streaming.spec import StreamSpec

__all__ = ["cutover_params"]

T = TypeVar("T")

WAY_FROM_FORM: Final = "{{ params.get('way') or '" + SwitchMethod.PARALLEL.value + "' }}"
START_FROM_FORM: Final = "{{ params.get('start') or '" + GreenStart.BY_GATE.value + "' }}"
REPLAY_FROM_FORM: Final = "{{ params.get('replay_from') or '' }}"
APPROVAL_FROM_FORM: Final = {
    **form.APPROVAL_FROM_FORM,
    "switch": "{{ params.get('approval_switch') or 'ask' }}",
    "end": "{{ params.get('approval_end') or 'auto' }}",
}
"""The steps of a cutover that may need a user; the form has a field for each."""
RETAIN_FROM_FORM: Final = "{{ params.get('retain_hours') or '' }}"
_WAYS: Final[Mapping[str, str]] = {
    SwitchMethod.PARALLEL.value: "parallel outputs: consumers are led to green's own",
    SwitchMethod.HANDOVER.value: "handover: green resumes in blue's output",
}
_STARTS: Final[Mapping[str, str]] = {
    GreenStart.BY_GATE.value: "chosen by the gates: a copy, else blue's position, else an empty checkpoint",
    GreenStart.FRESH.value: "an empty checkpoint, sources read again",
    GreenStart.CLONED.value: "a copy of blue's checkpoint",
    GreenStart.MIGRATED.value: "a migrated copy of blue's checkpoint, where the gates refuse a plain one",
    GreenStart.CARRIED.value: "blue's position, without state",
}


def streams_of(stream: StreamSpec | Sequence[StreamSpec]) -> tuple[StreamSpec, ...]:
    """
    Return the streams that switch together, also for a single stream.

    :raises SpecError: no stream, a value that is not a stream, or a stream with the name of a lane.
    """
    found = some(stream)
    for one in found:
        if not isinstance(one, StreamSpec):
            raise SpecError(
                f"A cutover expects StreamSpec values, got {one!r}. Give the spec itself."
            )
        if "{" not in one.name:
            check_is_stream(one.name)
    if not found:
        raise SpecError("A cutover needs a stream. Give its StreamSpec, or several.")
    return found


def some(given: T | Sequence[T]) -> tuple[T, ...]:
    """Return several values as a tuple, and a single value as a tuple of one."""
    # A text counts as a single value too, so that a message names it and not its letters.
    if isinstance(given, str) or not isinstance(given, Iterable):
        return (given,)
    return tuple(given)


def pointers_of(
    given: Pointer | Sequence[Pointer] | Mapping[str, Pointer | Sequence[Pointer]],
) -> Sequence[Pointer] | Mapping[str, Sequence[Pointer]]:
    """Return the pointers, or the pointers of each stream, also for a single pointer."""
    if isinstance(given, Mapping):
        return {stream: some(several) for stream, several in given.items()}
    return some(given)


@checked
def cutover_params(
    stream: StreamSpec | Sequence[StreamSpec],
    *,
    way: SwitchMethod | str = SwitchMethod.PARALLEL,
    start: GreenStart | str = GreenStart.BY_GATE,
    approvers: Sequence[str] = (),
    approval: CutoverApproval | None = None,
) -> dict[str, Param]:
    """
    Return the form of a cutover, for the ``params`` of a dag.

    :param stream: The stream, or several that switch together. The form of several has no field for the
        script, because all of them would get it.
    :param approval: The only choice where it is ``ask``, the first choice where it is ``auto``.
    :raises SpecError: a stream or a choice is wrong.
    """
    streams, given = streams_of(stream), approval or {}
    script = {"application": application_param(streams[0].form_policy)} if len(streams) == 1 else {}
    return {
        "dry_run": dry_run_param(),
        "way": Param(
            plain(way),
            enum=list(_WAYS),
            values_display=dict(_WAYS),
            title="Way of switching",
            description="The report of a dry run shows which methods are safe for the stream's sinks.",
        ),
        "start": Param(
            plain(start),
            enum=list(_STARTS),
            values_display=dict(_STARTS),
            title="Green begins with",
            description="The new version runs beside the live one, with its own output, until it is "
            "judged.",
        ),
        "replay_from": _replay_from(),
        "runtime": runtime_param(streams[0]),
        **script,
        "conf": conf_param(streams[0].form_policy),
        "approval_begin": begin_param(approval, approvers, Approval.ASK),
        "approval_switch": approval_param(
            *(given.get("switch"), Approval.ASK, "Approval to switch"),
            "Request an approval before a ready green becomes live. An inconclusive comparison always "
            "requests one.",
        ),
        "approval_end": approval_param(
            *(given.get("end"), Approval.AUTO, "Approval to end"),
            "Request an approval after a good soak. From then on a rollback is not possible.",
        ),
        "approvers": approvers_param(approvers),
        "accept": accept_param(),
        "soak_minutes": soak_param(
            "After the switch green must commit its batches and hold its backlog within this time, or blue "
            "becomes live again."
        ),
        "retain_hours": Param(
            None,
            type=["number", "null"],
            exclusiveMinimum=0,
            maximum=LONGEST / timedelta(hours=1),
            title="Keep blue, hours",
            description="How long the old version's checkpoint and output are kept after the soak; then "
            "its final backup is taken. To go back within this time, start another cutover. Empty: the time "
            "of the DAG, which the dry run's report shows.",
        ),
    }


def _replay_from() -> Param:
    return Param(
        None,
        type=["string", "null"],
        format="date-time",
        title="Read again from",
        description="For an empty checkpoint: the time from which {replay_from} lets the script "
        "read. Empty: computed from watermark and windows, and shown by a dry run.",
    )
