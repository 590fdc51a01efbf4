"""The tasks in which a person says yes or no to a green that was judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.core.cutover.table import CutoverState
from airflow_streaming.core.cutover.transition import state_of
from airflow_streaming.exceptions import CutoverRefused, SpecError
from airflow_streaming.operators._acting import who
from airflow_streaming.operators._asking import QuestionOperator, answered_by
from airflow_streaming.operators._cutover.lanes import HomeLanes
from airflow_streaming.operators._cutover.run import found_cutover, words
from airflow_streaming.operators._gate.common import REPORT_XCOM_KEY
from airflow_streaming.operators._upgrade.run import pulled

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.core.change import Change

PROMOTE: Final = "promote"
KEEP: Final = "keep"

_NO: Final = {PROMOTE: "abort", KEEP: "roll_back"}
"""What a no is to each word."""

_IN: Final = {
    PROMOTE: (CutoverState.READY, CutoverState.HELD),
    KEEP: (CutoverState.LIVE, CutoverState.SOAKING),
}
"""States in which each word may be given."""


class CutoverQuestionOperator(QuestionOperator):
    """
    Ask a person for the word that a cutover waits for, and give it.

    The word is a record in the stream's home, as one from the command line is; whoever waits there
    goes on by it. Silence until ``response_timeout`` is a no.

    :param word: ``promote``: make green live, and a no gives it up; ``keep``: leave it live for
        good, and a no leads consumers back to blue.
    :param preflight_task_id: The task of the same run that made the report.
    :param home: URI of the home. (templated)
    :param stream: Name of the stream that leads. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    template_fields: Sequence[str] = (
        *QuestionOperator.template_fields,
        *("home", "stream", "home_conn_id"),
    )

    def __init__(
        self,
        *,
        word: str,
        preflight_task_id: str,
        home: str,
        stream: str,
        home_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if word not in _NO:
            raise SpecError(f"word is {word!r}; give {', '.join(_NO)}.")
        self.word = word
        self.preflight_task_id = preflight_task_id
        self.home, self.stream, self.home_conn_id = home, stream, home_conn_id

    def execute(self, context: Context) -> Any:
        lanes = self._lanes(context)
        change = self._change(lanes, context)
        state = state_of(lanes.home.steps(change.number))
        if state not in _IN[self.word]:
            raise AirflowSkipException(f"Nobody has to be asked: it stands at {words(state)}.")
        terms = lanes.home.cutover_terms(change)
        if self.word == PROMOTE and terms.promotes_by_itself and state is CutoverState.READY:
            raise AirflowSkipException("Nobody has to be asked: a ready green goes on by itself.")
        return self.ask(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        # Not the approval's own: after a no it would skip the tasks that carry the no out.
        answer = HITLOperator.execute_complete(self, context, event)
        no = self.said_no(event)
        word = _NO[self.word] if no else self.word
        self._give(word, no or f"{answered_by(event) or 'Somebody'} said yes.", context)
        return answer

    def _give(self, word: str, reason: str, context: Context) -> None:
        lanes = self._lanes(context)
        change = self._change(lanes, context)
        try:
            lanes.say(word, reason, change.number)
        except CutoverRefused as err:
            state = state_of(lanes.home.steps(change.number))
            raise AirflowFailException(
                f"The answer came too late: the cutover stands at {words(state)}. {err}"
            ) from err
        self.log.info("Said %s: %s", words(word), reason)

    def _change(self, lanes: HomeLanes, context: Context) -> Change:
        report = pulled(context, self.preflight_task_id, REPORT_XCOM_KEY)
        found = found_cutover(lanes.home, report)
        if found is None:
            raise AirflowFailException(
                f"This run has begun no cutover of stream {self.stream!r}. Run the whole dag again."
            )
        return found

    def _lanes(self, context: Context) -> HomeLanes:
        return HomeLanes(self.home, self.stream, self.home_conn_id, by=who(context))
