"""A person's word in a cutover: a step that he takes, and the end of what blue was."""

from __future__ import annotations

from airflow_streaming.core.cutover.moving.view import CutoverView
from airflow_streaming.core.cutover.table import CutoverEvent, CutoverState, after
from airflow_streaming.cutover.lanes import Lanes
from airflow_streaming.cutover.ports import Retire
from airflow_streaming.cutover.recording import Recorder
from airflow_streaming.exceptions import CutoverRefused


class Words:
    """
    Takes the steps that people ask for.

    :param retire: Takes the final backup of blue; without it there is none.
    """

    def __init__(self, lanes: Lanes, recorder: Recorder, retire: Retire | None) -> None:
        self._lanes, self._recorder, self._retire = lanes, recorder, retire

    def say(self, view: CutoverView, event: CutoverEvent, reason: str) -> None:
        """
        Take a step by somebody's word.

        :raises CutoverRefused: it cannot be taken, or somebody else took another one first. The
            same word said before is no reason to complain.
        """
        change = view.change
        said = [step for step in view.history if step.event is event and step.reason == reason]
        if said and event is not CutoverEvent.LOOK_AGAIN:
            return
        after(view.state, event)
        if not self._recorder.take(view, event, reason):
            newest = self._lanes.home.steps(change.number)[view.step]
            if newest.event is not event:
                raise CutoverRefused(
                    f"Cutover {change.number} of {change.stream} has just gone another way: "
                    f"{newest.by} took {newest.event.value!r} ({newest.reason}). Look again."
                )

    def retire(self, view: CutoverView, reason: str) -> None:
        """
        Take the final backup of what blue was, and let its lane go.

        :raises CutoverRefused: the cutover is not finalised.
        :raises CheckpointError: the backup could not be taken; nothing is retired.
        """
        if view.state is CutoverState.RETIRED:
            return
        after(view.state, CutoverEvent.RETAIN_OVER)
        self._recorder.take(view, CutoverEvent.RETAIN_OVER, reason, self._backups(view))

    def _backups(self, view: CutoverView) -> dict[str, str]:
        facts: dict[str, str] = {}
        if self._retire is None:
            return facts
        for one in view.pairs:
            home = self._lanes.blue(one.pair).home
            deployment = home.deployment(one.pair.blue_deployment)
            facts[f"{one.pair.stream}.backup"] = self._retire(view.change, one.pair, deployment)
        return facts
