"""What an alert about a finding says of the provider's own act, and of what a person should do."""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.lanes import base_of
from airflow_streaming.core.rules.rule import Finding, Severity

_ACTIONS: Final = {
    Severity.ALERT: "Nothing: the stream is left alone.",
    Severity.RESTART: "The driver is stopped and started again, as far as the restart policy allows.",
    Severity.STOP: "The driver is stopped, and stays down until a person starts the stream again.",
}

_REMEDIES: Final = {
    "hung": "Look in the driver's log for what froze it: a suspended process, garbage collection, "
    "a storage that does not answer.",
    "stalled": "Look in the Spark UI at the stage that stands still, and in the driver's log at "
    "what it waits for: a source, a sink or the storage.",
    "slow": "Look in the Spark UI at the batch in work. If batches stay this long, bound them with "
    "a rate limit or give the stream more cores.",
    "unfinished_upgrade": "Look at the run of the upgrade: clear its failed task to go on, approve or "
    "reject what waits, or give it up: airflow-streaming upgrade roll-back {stream} --reason TEXT (this "
    "closes one that has come to its end, too)",
    "unfinished_cutover": "Look at the run of the cutover: clear its failed task to go on, approve or "
    "reject what waits, or see how far it is and what can be done: airflow-streaming cutover status "
    "{base}",
    "query_failed": "If the script did not mean to stop this query, correct what ended it, and "
    "deploy the stream again.",
}

_OF_A_CHANGE: Final = {
    "unfinished_upgrade": "Nothing: while an upgrade is open only the upgrade acts.",
    "unfinished_cutover": "Nothing: what is left to do is the cutover's.",
}

_UNREACHABLE: Final = (
    "Make the driver's host answer. Or, knowing that the driver is gone: airflow-streaming "
    "declare-dead {stream} --epoch {epoch} --by NAME --reason TEXT"
)

_OF_A_FIGURE: Final = (
    "Look in the Spark UI and at the query's last batches for what has changed. If the figure is "
    "as it should be, change the rule's bound in the dag."
)


def action_for(finding: Finding) -> str:
    """Return what the provider does about a finding that fires."""
    if finding.rule in _OF_A_CHANGE:
        return _OF_A_CHANGE[finding.rule]
    if finding.rule == "unreachable":
        return "Nothing is started: the old driver may still write, and Spark does not fence."
    return _ACTIONS[finding.severity]


def remedy_for_rule(rule: str, *, stream: str, epoch: int) -> str:
    """Return what a person should do about a rule that fires."""
    if rule == "unreachable":
        return _UNREACHABLE.format(stream=stream, epoch=epoch)
    remedy = _REMEDIES.get(rule, _OF_A_FIGURE)
    return remedy.replace("{stream}", stream).replace("{base}", base_of(stream))
