"""The form of a cutover: the way, what green begins with, who is asked, and how long things take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from airflow.sdk import Param

from airflow_streaming.core.cutover.terms import StartWay, SwitchWay
from airflow_streaming.core.spec import StreamSpec
from airflow_streaming.core.upgrade.terms import SoakTerms
from airflow_streaming.operators._cutover.asked import ASK, AUTO, BY_GATE, STARTS, WAYS, WHO
from airflow_streaming.orchestration._cutover_asked import check_choices, streams_of
from airflow_streaming.orchestration.form import (
    application_param,
    approvers_param,
    conf_param,
    dry_run_param,
    need_approval_param,
    runtime_param,
)

_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)

WAY_FROM_FORM: Final = "{{ params.get('way') or '" + SwitchWay.PARALLEL.value + "' }}"
START_FROM_FORM: Final = "{{ params.get('start') or '" + BY_GATE + "' }}"
REPLAY_FROM_FORM: Final = "{{ params.get('replay_from') or '' }}"
PROMOTE_FROM_FORM: Final = "{{ params.get('promote') or '" + ASK + "' }}"
RETAIN_FROM_FORM: Final = "{{ params.get('retain_hours') or '' }}"

_WAYS: Final[Mapping[str, str]] = {
    SwitchWay.PARALLEL.value: "parallel outputs: consumers are led to green's own",
    SwitchWay.HANDOVER.value: "handover: green goes on in blue's output",
}
_STARTS: Final[Mapping[str, str]] = {
    BY_GATE: "whatever the gates say",
    StartWay.FRESH.value: "an empty checkpoint, sources read again",
    StartWay.CLONED.value: "a copy of blue's checkpoint",
    StartWay.CARRIED.value: "blue's position, without state",
}
_WHO: Final[Mapping[str, str]] = {
    ASK: "ask a person before the switch",
    AUTO: "by itself when green is ready",
}


def cutover_params(
    stream: StreamSpec | Sequence[StreamSpec],
    *,
    way: str = SwitchWay.PARALLEL.value,
    start: str = BY_GATE,
    promote: str = ASK,
    soak: SoakTerms | None = None,
    retain_blue: timedelta = timedelta(days=1),
    approvers: Sequence[str] = (),
    need_approval: bool = True,
) -> dict[str, Param]:
    """
    Return the form of a cutover, for the ``params`` of a dag.

    :param stream: The stream, or several that switch together: then the form cannot name another
        script, because it would be that of all of them.
    :raises SpecError: streams or choices that cannot be.
    """
    streams = streams_of(stream)
    check_choices(way=way, start=start, promote=promote)
    script = {"application": application_param()} if len(streams) == 1 else {}
    return {
        "dry_run": dry_run_param(),
        "way": Param(
            way,
            enum=list(WAYS),
            values_display=dict(_WAYS),
            title="Way of switching",
            description="The report of a dry run says which ways are sound for the stream's sinks.",
        ),
        "start": Param(
            start,
            enum=list(STARTS),
            values_display=dict(_STARTS),
            title="Green begins with",
            description="The version that is to come runs beside the live one, with an output of "
            "its own, until it is judged.",
        ),
        "replay_from": _replay_from(),
        "runtime": runtime_param(streams[0]),
        **script,
        "conf": conf_param(),
        "need_approval": need_approval_param(is_bound=bool(approvers), default=need_approval),
        "promote": Param(
            promote,
            enum=list(WHO),
            values_display=dict(_WHO),
            title="Switch",
            description="Where nothing is proved, a person is asked all the same.",
        ),
        "approvers": approvers_param(approvers),
        **_times(soak or SoakTerms(), retain_blue),
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


def _times(soak: SoakTerms, retain_blue: timedelta) -> dict[str, Param]:
    return {
        "soak_minutes": Param(
            soak.at_most / _MINUTE,
            type="number",
            exclusiveMinimum=0,
            title="Soak, minutes at most",
            description=f"After the switch green has to commit {soak.batches} batches of every "
            "query and hold its backlog in this time, or blue is live again.",
        ),
        "retain_hours": Param(
            retain_blue / _HOUR,
            type="number",
            exclusiveMinimum=0,
            title="Keep blue, hours",
            description="How long checkpoint and output of the version before are kept after the soak; "
            "then its final backup is taken. To go back by then, cut over again.",
        ),
    }
