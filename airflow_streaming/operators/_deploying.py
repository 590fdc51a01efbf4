"""What the task that keeps a stream alive does with the deployment that its dag proposes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.compatibility.finding import GateDecision
from airflow_streaming.core.control import EventKind
from airflow_streaming.core.deployment import Deployment, ProposalAction, decide_proposal
from airflow_streaming.exceptions import SpecError
from airflow_streaming.hooks._final import spec_errors_are_final
from airflow_streaming.operators._apply_allowed import gates_on, undone_by_a_person
from airflow_streaming.operators._gate.common import line_of
from airflow_streaming.operators._narrating import Log

if TYPE_CHECKING:
    from airflow_streaming.hooks.stream import SparkStreamHook


@dataclass(frozen=True, slots=True, kw_only=True)
class Deploying:
    """
    Applies what the dag proposes, or tells why not.

    :param apply_allowed: Apply without being asked what the gates allow.
    :param backs_up: Back the checkpoints up before the running deployment is replaced; when that
        fails, it stays.
    :param backup_store: URI of the store for it; ``<home>/_backups`` when not given.
    """

    hook: SparkStreamHook
    log: Log
    apply_allowed: bool = False
    backs_up: bool = False
    backup_store: str | None = None

    def deploy(self, *, restart_asked: bool) -> None:
        """
        Look at the proposal and do what becomes of it.

        :param restart_asked: A person has said that it is to be applied.
        :raises AirflowFailException: it cannot run, and nothing else runs or it was asked for.
        """
        hook = self.hook
        with spec_errors_are_final():
            current = hook.home.newest_deployment()
        try:
            proposed, source = hook.proposal()
        except SpecError as err:
            if current is None or restart_asked:
                raise AirflowFailException(str(err)) from err
            # A broken release of the dag must not leave the running stream unwatched.
            message = f"The dag proposes what cannot run, so nothing changes: {err}"
            hook.keeper.tell(EventKind.PROPOSED, message)
            return
        action = decide_proposal(current, proposed, restart_asked=restart_asked)
        if action is ProposalAction.KEEP:
            return
        refusal = self._why_not(current, proposed, action)
        if current is not None and refusal:
            hook.keeper.tell(EventKind.PROPOSED, refusal)
            return
        if current is not None and self.backs_up:
            self._back_up()
        hook.keeper.deploy(proposed, source)
        hook.keeper.forgive("A new deployment was applied.")

    def _why_not(
        self, current: Deployment | None, proposed: Deployment, action: ProposalAction
    ) -> str:
        """Return why a proposal is not applied, in words; empty when it is."""
        if current is None:
            return ""
        message = _proposal_message(proposed, current)
        change = self.hook.home.change_in_hand()
        if change is not None:
            return f"{message} It has to wait for the end of change {change.number}."
        if action is ProposalAction.APPLY:
            return ""
        if not self.apply_allowed:
            return message
        undone = undone_by_a_person(self.hook.streams, self.hook.home, proposed)
        if undone:
            return f"{message} {undone}"
        report = gates_on(self.hook, current)
        if report.decision is GateDecision.ALLOWED:
            self.log.info("The gates allow what the dag proposes, so it is applied.")
            return ""
        return f"{message} The gates: {line_of(report.findings[0])}"

    def _back_up(self) -> None:
        from airflow_streaming.operators._backup_before import back_up_before_upgrade

        hook = self.hook
        back_up_before_upgrade(
            hook.home,
            hook.spec.home,
            hook.home_conn_id,
            store=self.backup_store,
            by=hook.by,
            log=self.log,
        )


def _proposal_message(proposed: Deployment, current: Deployment) -> str:
    # After a restore a dag that names a checkpoint proposes to leave the restored one.
    is_moved = proposed.checkpoint != current.checkpoint
    move = f", and to go from {current.checkpoint} to {proposed.checkpoint}" if is_moved else ""
    return (
        f"The dag proposes another deployment than the running {current.number}: "
        f"{', '.join(proposed.differences(current))} differ. The running one stays; trigger the "
        f"dag with restart=True to apply the proposal{move}."
    )
