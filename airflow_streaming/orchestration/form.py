"""
The form of an upgrade: choices of a user who triggers a run manually.

A field that is left empty keeps the live value. The form offers the runtimes of ``[streaming]
runtimes`` where the dags are parsed. Without any there, the field takes any name, and the preflight
reports whether the worker knows it.

A field that may stay empty has ``null`` among its types: Airflow's form does not start a run before
all other fields are filled in. The form has no sections, because Airflow shows them closed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from airflow.sdk import Param

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.accepted import STEPS_BACK
from airflow_streaming.model.arguments.fields import checked, is_template
from airflow_streaming.model.arguments.form_policy import FormPolicy
from airflow_streaming.operators.common.form_edits import ADVISED, LONGEST_REHEARSAL
from airflow_streaming.options import (
    MOST_SOAK,
    Approval,
    BackupLevel,
    ChangeApproval,
    RehearseWhen,
    plain,
)
from airflow_streaming.settings import read_settings
from airflow_streaming.spec import StreamSpec

__all__ = [
    "accept_param",
    "application_param",
    "approval_param",
    "approvers_param",
    "conf_param",
    "dry_run_param",
    "rescale_params",
    "restore_params",
    "runtime_param",
    "soak_param",
    "upgrade_params",
]

_LEFT: Final = "Leave empty to keep the current value."
_WHO: Final = {Approval.ASK: "ask a user", Approval.AUTO: "no approval"}
"""Minutes. A rehearsal occupies a worker's slot and the memory of a Spark for that long."""
AS_IT_IS: Final = "as it is live"
"""Choice of the live runtime; a form cannot show an empty choice."""
FROM_FORM: Final[Mapping[str, str]] = {
    "runtime": "{{ (params.get('runtime') or '') | replace('" + AS_IT_IS + "', '') }}",
    "application": "{{ params.get('application') or '' }}",
    "conf": "{{ (params.get('conf') or {}) | tojson }}",
}
"""Arguments of every task of an upgrade that come from the form, where the dag has one."""
_TYPED: Final = "".join(
    f" and not params.get('{name}')"
    for name in ("executors", "executor_cores", "executor_memory", "shuffle_partitions", "conf")
)
SIZE_FROM_FORM: Final[Mapping[str, str]] = {
    "executors": "{{ '" + ADVISED + "' if params.get('take_advice')" + _TYPED + " "
    "else params.get('executors') or '' }}",
    **{
        name: "{{ params.get('" + name + "') or '' }}"
        for name in ("executor_cores", "executor_memory", "shuffle_partitions")
    },
}
"""The size of a stream, from the form of a rescale; a typed value replaces the advice."""
DRY_RUN_FROM_FORM: Final = "{{ params.get('dry_run', True) }}"
APPROVAL_FROM_FORM: Final = {"begin": "{{ params.get('approval_begin') or 'ask' }}"}
"""The steps of an upgrade that may need a user; the form has a field for each."""
RESTART_APPROVAL_FROM_FORM: Final = {"begin": "{{ params.get('approval_begin') or 'auto' }}"}
APPROVERS_FROM_FORM: Final = "{{ (params.get('approvers') or []) | join(',') }}"
REHEARSE_FROM_FORM: Final = (
    "{{ params.get('rehearse') or '" + RehearseWhen.WHEN_UNKNOWN.value + "' }}"
)
PREWARM_FROM_FORM: Final = "{{ params.get('prewarm', '') }}"
MIGRATE_FROM_FORM: Final = "{{ params.get('migrate', False) }}"
REHEARSAL_MINUTES_FROM_FORM: Final = "{{ params.get('rehearsal_minutes') or '' }}"
SOAK_FROM_FORM: Final = "{{ params.get('soak_minutes') or '' }}"
BACKUP_FROM_FORM: Final = "{{ params.get('backup_id') or '' }}"
LEVEL_FROM_FORM: Final = "{{ params.get('level') or '" + BackupLevel.FULL.value + "' }}"
REASON_FROM_FORM: Final = "{{ params.get('reason') or 'Restored from a form.' }}"
REWIND_FROM_FORM: Final = "{{ params.get('rewind', False) }}"
ACCEPT_FROM_FORM: Final = "{{ (params.get('accept') or []) | join(',') }}"


@checked
def upgrade_params(
    stream: StreamSpec,
    *,
    approvers: Sequence[str] = (),
    approval: ChangeApproval | None = None,
    rehearse: RehearseWhen | str = RehearseWhen.WHEN_UNKNOWN,
    prewarm: bool | None = None,
) -> dict[str, Param]:
    """
    Return the form of an upgrade, for the ``params`` of a dag.

    :param approval: The only choice where it is ``ask``, the first choice where it is ``auto``.
    :param prewarm: First choice of the field; ``None``: the stream's ``standby``.
    """
    prewarm = stream.standby if prewarm is None else prewarm
    return {
        "runtime": runtime_param(stream),
        "application": application_param(stream.form_policy),
        "conf": conf_param(stream.form_policy),
        "approval_begin": begin_param(approval, approvers, Approval.ASK),
        **_course(approvers, stream.form_policy, prewarm=prewarm),
        "migrate": Param(
            False,
            type="boolean",
            title="Migrate the state",
            description="Where the report says that a refused change can be migrated: start the new deployment from a "
            "migrated copy of the checkpoint, once its proof is clean. The stream is down meanwhile.",
        ),
        "rehearse": Param(
            plain(rehearse),
            enum=[choice.value for choice in RehearseWhen],
            values_display={
                "when_unknown": "when the gates do not know",
                "always": "always",
                "never": "never",
            },
            title="Rehearse",
            description="Run it on a copy of the checkpoints before the approval is requested.",
        ),
        "rehearsal_minutes": Param(
            None,
            type=["number", "null"],
            exclusiveMinimum=0,
            maximum=LONGEST_REHEARSAL / timedelta(minutes=1),
            title="Rehearsal, minutes at most",
            description="Time for all queries of the rehearsal together, for scripts whose batches take long. "
            "Empty: the bound of the DAG.",
        ),
    }


@checked
def rescale_params(
    *,
    approvers: Sequence[str] = (),
    approval: ChangeApproval | None = None,
    prewarm: bool = False,
    form_policy: FormPolicy = FormPolicy(),
) -> dict[str, Param]:
    """
    Return the form of a rolling restart with another size, for the ``params`` of a dag.

    :param approval: The only choice where it is ``ask``, the first choice where it is ``auto``.
    :param form_policy: That of the stream; the form says which settings it accepts.
    """
    number = ["integer", "null"]
    return {
        "take_advice": Param(
            True,
            type="boolean",
            title="Take the advice",
            description="If the fields below are empty: use as many executors as recent batches need. "
            "The report shows the number and the figures behind it; without enough figures "
            "the run is refused. Off, with the fields below empty: a plain restart.",
        ),
        "executors": Param(None, type=number, minimum=1, title="Executors", description=_LEFT),
        "executor_cores": Param(
            None, type=number, minimum=1, title="Cores each", description=_LEFT
        ),
        "executor_memory": Param(
            None,
            type=["string", "null"],
            title="Memory each",
            description=f"For example 4g. {_LEFT}",
        ),
        "shuffle_partitions": Param(
            None,
            type=number,
            minimum=1,
            title="Shuffle partitions",
            description="State is repartitioned where Spark can do it (4.2 and newer, RocksDB); the report says so, or "
            f"why it keeps the number it has. {_LEFT}",
        ),
        "conf": conf_param(form_policy),
        "approval_begin": begin_param(approval, approvers, Approval.AUTO),
        **_course(approvers, form_policy, prewarm=prewarm),
    }


@checked
def restore_params() -> dict[str, Param]:
    """Return the form that verifies a backup and restores a stream from it."""
    return {
        "backup_id": Param(
            None,
            type=["string", "null"],
            title="Backup",
            description="Id of the backup, as the Streams page and `airflow-streaming checkpoint "
            "list` list it. Empty: the newest.",
        ),
        "level": Param(
            BackupLevel.FULL.value,
            enum=[level.value for level in BackupLevel],
            values_display={
                "quick": "names and sizes",
                "full": "every byte",
                "drill": "every byte, and a Spark that opens the state",
            },
            title="Verify",
            description="Checks of the backup before anything is restored.",
        ),
        "dry_run": Param(
            True,
            type="boolean",
            title="Dry run",
            description="Verify, and report the batches that a restore would replay. Turn off to restore; the "
            "stream must be stopped.",
        ),
        "rewind": Param(
            False,
            type="boolean",
            title="Rewind file sinks",
            description="Move what file sinks wrote since the backup aside, so that the batches after "
            "it are written again. A query with state cannot go back without it.",
        ),
        "reason": Param(
            None, type=["string", "null"], title="Reason", description="For the timeline."
        ),
        "accept": Param(
            [],
            type=["array", "null"],
            items={"type": "string"},
            title="Accepted refusals",
            description="Codes of refusals in the dry run's report that you accept, one per line.",
        ),
    }


def _course(approvers: Sequence[str], policy: FormPolicy, *, prewarm: bool) -> dict[str, Param]:
    return {
        "dry_run": dry_run_param(),
        "approvers": approvers_param(approvers),
        "accept": accept_param((*STEPS_BACK, *policy.accept)),
        "prewarm": Param(
            prewarm,
            type="boolean",
            title="Pre-warm",
            description="Start the new driver before the old one is stopped; it waits, warm, and writes "
            "nothing until then. Both take their memory for that time.",
        ),
        "soak_minutes": soak_param(
            "The new deployment must commit its batches and hold its backlog within this time, or it is "
            "rolled back."
        ),
    }


def runtime_param(stream: StreamSpec) -> Param:
    """Return the field for the Spark installation to go to."""
    listed = stream.form_policy.runtimes
    known = [one for one in known_runtimes() if listed is None or one in listed]
    values: dict[str, Any] = {
        "title": "Target runtime",
        "description": 'Spark installation to go to, by its name in [streaming] runtimes. "as it is live" takes '
        "the DAG's where it was edited since.",
    }
    if not known:
        return Param(None, type=["string", "null"], **values)
    return Param(AS_IT_IS, enum=[AS_IT_IS, *known], **values)


def soak_param(description: str) -> Param:
    """Return the field that replaces ``soak.at_most`` of the DAG."""
    return Param(
        None,
        type=["number", "null"],
        exclusiveMinimum=0,
        maximum=MOST_SOAK / timedelta(minutes=1),
        title="Soak, minutes at most",
        description=f"{description} Empty: the bound of the DAG, which the dry run's report shows.",
    )


def dry_run_param() -> Param:
    """Return the field that says whether a run only looks, which it does unless it is changed."""
    return Param(
        True,
        type="boolean",
        title="Dry run",
        description="Report only. Turn off to apply.",
    )


def accept_param(codes: Sequence[str] = STEPS_BACK) -> Param:
    """
    Return the field for the findings that a user accepts.

    :param codes: Codes that it offers.
    """
    return Param(
        [],
        type=["array", "null"],
        items={"type": "string"},
        examples=list(codes),
        title="Accepted findings",
        description="Codes of findings in the dry run's report that you accept, one per line. The form takes: "
        f"{', '.join(codes)}.",
    )


def application_param(policy: FormPolicy) -> Param:
    """Return the field for the script to go to."""
    below = f", and scripts below {', '.join(policy.applications)}" if policy.applications else ""
    accepted = (
        "any script"
        if "application" in policy.fields
        else f"the scripts of the DAG and of the running deployment{below}"
    )
    return Param(
        None,
        type=["string", "null"],
        title="Application",
        description="Path or URI of the script to go to. Empty: the live script, or the DAG's where it was "
        f"edited since. Accepted: {accepted}.{_code(policy, 'application')}",
    )


def conf_param(policy: FormPolicy) -> Param:
    """Return the field for changes of the configuration."""
    more = f", and {', '.join(policy.conf)}" if policy.conf else ""
    accepted = "any setting" if "conf" in policy.fields else f"sizes and plain settings{more}"
    return Param(
        {},
        type=["object", "null"],
        title="Configuration",
        description='Changes of the Spark configuration, e.g. {"spark.executor.memory": "4g"}; '
        f"null takes a key out. Accepted: {accepted}.{_code(policy, 'conf')} No secrets: the value is "
        "stored with the run.",
    )


def _code(policy: FormPolicy, field: str) -> str:
    """Return the warning of a field through which a run may bring code; empty without it."""
    return (
        " Who starts a run may run code as the worker's user." if policy.means_code(field) else ""
    )


def begin_param(
    approval: ChangeApproval | None, approvers: Sequence[str], usual: Approval
) -> Param:
    """Return the field for the approval before anything is changed."""
    # A user who may start a run must not be able to bypass the approvers whom the author named.
    given = Approval.ASK if approvers else (approval or {}).get("begin")
    return approval_param(
        *(given, usual, "Approval to begin"),
        "Request an approval in Airflow before anything is changed.",
    )


def approval_param(
    given: Approval | str | None, usual: Approval, title: str, description: str
) -> Param:
    """
    Return the field for the approval of a step.

    :param given: The author's word: a form may ask for an approval, and not take one away.
    :param usual: First choice without it.
    """
    first = usual if given is None or is_template(given) else Approval(given)
    choices = [Approval.ASK] if given == Approval.ASK else list(Approval)
    return Param(
        first.value,
        enum=[choice.value for choice in choices],
        values_display={choice.value: _WHO[choice] for choice in choices},
        title=title,
        description=description,
    )


def approvers_param(approvers: Sequence[str]) -> Param:
    """Return the field for those who may answer."""
    items: dict[str, Any] = {"type": "string"}
    values: dict[str, Any] = {}
    if approvers:
        items["enum"] = values["examples"] = list(approvers)
    return Param(
        list(approvers),
        type=["array", "null"],
        items=items,
        title="Approvers",
        **values,
        description="Ids of the users who may approve, one per line. Empty: every user who may edit the "
        "DAG."
        if not approvers
        else "Who of these may approve, one a line.",
    )


def known_runtimes() -> list[str]:
    """Return the names of the runtimes that are configured here, sorted; none when unreadable."""
    try:
        return sorted(str(name) for name in read_settings().runtimes)
    except SpecError:
        return []  # the worker reports the error; a dag must be parsed
