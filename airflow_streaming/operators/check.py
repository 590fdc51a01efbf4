"""The operator that checks an installation where tasks and drivers run: on a worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import SpecError
from airflow_streaming.model.arguments.calls import NamedParameters
from airflow_streaming.model.arguments.fields import checked
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.advice.installation.check_line import Line
    from airflow_streaming.advice.installation.installation_checks import Installation
    from airflow_streaming.home.home import Home
    from airflow_streaming.storage.blobs import Blobs

FAIL_ON: Final = ("never", "problem", "unknown", "warning")
"""From the most to the least patient; each fails on the graver outcomes too."""


class CheckInstallationOperator(NamedParameters, BaseOperator):
    """
    Check what streams need of this worker and its Airflow, as ``airflow-streaming check`` does.

    The return value is every line as a dictionary, problems first: check, outcome, value seen, value expected,
    next step. Writers race for a few files in each home; they are deleted at once.

    :param home: The home's URI, beside those in ``[streaming] homes``. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param fail_on: Fail the task from this outcome on: ``problem``, ``unknown``, ``warning``, or ``never``.
    """

    template_fields: Sequence[str] = ("home", "home_conn_id")
    ui_color = "#d7e3f4"

    @checked
    def __init__(
        self,
        *,
        home: str | None = None,
        home_conn_id: str | None = None,
        fail_on: str = "problem",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if fail_on not in FAIL_ON:
            raise SpecError(f"fail_on is {fail_on!r}; give one of {', '.join(FAIL_ON)}.")
        self.home = home
        self.home_conn_id = home_conn_id
        self.fail_on = fail_on

    def execute(self, context: Context) -> list[dict[str, Any]]:
        # Not at dag parse.
        from airflow_streaming.advice.installation.check_line import CheckOutcome
        from airflow_streaming.advice.installation.installation_checks import judge
        from airflow_streaming.model.codec import encode

        with spec_errors_are_final():
            lines = judge(self._gathered())
        for line in lines:
            write = self.log.info if line.outcome in ("ok", "note") else self.log.warning
            write("%s", as_text(line))
        failing = FAIL_ON[1 : FAIL_ON.index(self.fail_on) + 1]
        grave = [line for line in lines if line.outcome in map(CheckOutcome, failing)]
        if grave:
            found = " ".join(map(as_text, grave))
            raise AirflowFailException(f"The installation has {len(grave)} flaws. {found}")
        encoded: list[dict[str, Any]] = [encode(line) for line in lines]
        return encoded

    def _gathered(self) -> Installation:
        # Not at dag parse.
        from airflow_streaming.advice.installation.installation_probes import gather
        from airflow_streaming.model.uris import check_uri
        from airflow_streaming.services.fleet_index import state_of

        homes = [check_uri(self.home, "home")] if self.home else []
        return gather(
            homes,
            rows_of=lambda home: state_of(home.store, datetime.now(UTC)),
            open_=self._open,
            blobs_of=self._blobs,
        )

    def _conn_of(self, uri: str) -> str | None:
        return self.home_conn_id if uri == self.home else None

    def _open(self, uri: str) -> Home:
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse

        return StreamHomeHook(uri, self._conn_of(uri), has_seen_home=True).get_conn()

    def _blobs(self, uri: str) -> Blobs:
        from airflow_streaming.hooks.home import access  # not at dag parse
        from airflow_streaming.model.uris import to_fsspec
        from airflow_streaming.storage.fsspec_blobs import open_blobs

        return open_blobs(to_fsspec(uri), **access(uri, self._conn_of(uri)))


def as_text(line: Line) -> str:
    """Return a line of a check for the log of a task."""
    expected = f" Expected: {line.expected}." if line.expected else ""
    step = f" Next: {line.next}" if line.next else ""
    return f"{line.outcome.upper()} {line.check}: {line.seen}.{expected}{step}"
