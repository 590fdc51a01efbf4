"""
The operators that announce complete windows of a stream as partitions of an asset.

One task announces them all, in order. See ADR 33 for what happens when it is killed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_streaming.exceptions import SpecError, StreamingError
from airflow_streaming.model.arguments.calls import Called, NamedParameters
from airflow_streaming.model.arguments.fields import Positive, Range, checked, is_filled_in
from airflow_streaming.model.arguments.literals import OF_A_STREAM, check_literals
from airflow_streaming.model.codec import format_time, parse_time
from airflow_streaming.model.durations import duration_text
from airflow_streaming.model.names import check_folder_name
from airflow_streaming.model.products.windows import ClosedWindow, series_name, window_key
from airflow_streaming.operators.common.base import who
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.home.home import StreamHome
    from airflow_streaming.model.products.windows import SeriesState, WindowClaim
    from airflow_streaming.services.windows import WindowAnnouncer
    from airflow_streaming.supervision.readiness.closed_windows import Committed

__all__ = ["AnnounceWindowsOperator", "ClosedWindow", "ClosedWindowsOperator"]

MOST_LOOKS: Final = 10
"""Looks of one try; the second one usually claims or waits."""
_Least = Annotated[timedelta, Range(least=timedelta(minutes=1), most=timedelta(days=7))]


class ClosedWindowsOperator(NamedParameters, BaseOperator):
    """
    Wait until a stream has completed windows of event time, and announce each as a partition.

    A window is complete when the committed output has reached its end: the watermark of the newest
    committed batch. The asset has one event for each window, in order, with the begin of the window as its
    partition key, such as ``2026-11-27T14:00:00`` in UTC. ``extra`` has ``stream``, ``series``, ``claim`` and
    ``revisions``, the number of announcements of each key. A second asset, the same with ``.receipts`` behind
    its name, has one event for each run that announced; schedule no DAG by it. A backlog is announced by several runs, at most 100
    windows each. Use it in a DAG of its own with ``schedule="@continuous"`` and ``max_active_runs=1``, as
    ``stream_dags(partitions=...)`` makes it, and give it retries.

    A day without a complete window ends the task as skipped; the next run continues.

    :param stream: The stream's name. (templated)
    :param home: The home's URI. (templated)
    :param asset: The asset to announce; see ``window_asset``.
    :param every: Length of the windows, counted from 1970 in UTC: from a minute to a week.
    :param query: The query that counts; default: the one furthest behind. (templated)
    :param since: Event time with which the first run begins; default: the window that is open then. Later
        runs continue the record in the home.
    :param content: Returns a text for a ``ClosedWindow`` that changes with its content, such as a count or a
        checksum. A window whose text changes is announced again, with the next revision.
    :param recheck: How far back the content of announced windows is compared whenever a window is complete.
    :param roll_up: Announce all windows of a complete span, such as a day, when one of them is
        corrected: a roll-up of Airflow waits for all its windows once more.
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    template_fields: Sequence[str] = ("stream", "home", "query", "home_conn_id")
    ui_color = "#d5ecd9"

    @checked
    def __init__(
        self,
        *,
        stream: str,
        home: str,
        asset: Asset,
        every: _Least = timedelta(hours=1),
        query: str | None = None,
        since: datetime | None = None,
        content: Annotated[Callable[[ClosedWindow], str], Called(("a ClosedWindow",))]
        | None = None,
        recheck: Positive = timedelta(days=1),
        roll_up: Positive | None = None,
        home_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.receipts = receipts_of(asset)
        super().__init__(outlets=[asset, self.receipts], **kwargs)
        self.stream, self.home, self.query = stream, home, query
        self.home_conn_id = home_conn_id
        self.asset, self.every, self.since = asset, every, since
        self.content, self.recheck, self.roll_up = content, recheck, roll_up
        check_literals(self, OF_A_STREAM)
        self._check()

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_streaming.hooks.window_events import AirflowTask  # not at dag parse

        with spec_errors_are_final():
            announcer = self._announcer(AirflowTask(context["ti"], self.receipts), who(context))
            for _ in range(MOST_LOOKS):
                claim = self._look(announcer)
                if claim is not None and claim.windows:
                    return self._emit(claim, context)
        raise StreamingError(
            f"Windows {announcer.series!r} of stream {self.stream!r} were claimed by other tasks in each of "
            f"{MOST_LOOKS} looks. Keep one DAG for them, with max_active_runs=1."
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Look again, or end."""
        match event["action"]:
            case "fail":
                raise AirflowFailException(str(event["reason"]))
            case "renew":
                raise AirflowSkipException(
                    f"No window of stream {self.stream!r} was completed for a day. The next run waits on."
                )
        return self.execute(context)

    def _check(self) -> None:
        if self.since is not None and self.since.tzinfo is None:
            raise SpecError(
                f"since of task {self.task_id!r} is {self.since}, without a time zone. Give an aware time."
            )
        span = self.roll_up
        if span is not None and (span % self.every or span == self.every):
            raise SpecError(
                f"roll_up of task {self.task_id!r} is {duration_text(span)}, which is not made of windows of "
                f"{duration_text(self.every)}. Give a multiple of every."
            )
        if not is_filled_in(self.query or ""):
            check_folder_name(series_name(self.every, self.query))

    def _announcer(self, task: Any, by: str) -> WindowAnnouncer:
        from airflow_streaming.services.windows import WindowAnnouncer  # not at dag parse
        from airflow_streaming.supervision.readiness.closed_windows import SeriesTerms

        terms = SeriesTerms(
            interval=self.every, since=self.since, roll_up=self.roll_up, recheck=self.recheck
        )
        name = series_name(self.every, self.query or None)
        return WindowAnnouncer(self._records(), name, terms, task, by=by)

    def _records(self) -> StreamHome:
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse

        return StreamHomeHook(self.home, self.home_conn_id).get_conn().stream(self.stream)

    def _look(self, announcer: WindowAnnouncer) -> WindowClaim | None:
        """Return the claim of this try; ``None`` to look again. Without a due window the task defers."""
        settled = announcer.settle()
        if settled.held_by is not None:
            self.log.info("Waiting for %s, which announces windows now.", settled.held_by.by)
            self._defer(announcer, None)
        committed, output = self._committed()
        if committed.until is None:
            self._wait_for_a_watermark(announcer, committed, settled.state)
        if settled.state is None:
            announcer.begin(settled, committed.until)
            return None
        contents = self._contents(announcer, settled.state, committed.until, output)
        due = announcer.due(settled.state, committed.until, contents)
        if due.windows or due.state != settled.state:
            return announcer.claim(settled, due)
        return self._defer(announcer, settled.state)

    def _committed(self) -> tuple[Committed, str]:
        from airflow_streaming.hooks.snapshot import open_looker  # not at dag parse
        from airflow_streaming.supervision.readiness.closed_windows import committed_until
        from airflow_streaming.supervision.readiness.subject import Subject

        subject = Subject(stream=self.stream, home=self.home, home_conn_id=self.home_conn_id)
        snapshot = open_looker(subject).snapshot()
        found = committed_until(snapshot, self.query or None, now=datetime.now(UTC))
        return found, snapshot.output

    def _wait_for_a_watermark(
        self, announcer: WindowAnnouncer, committed: Committed, state: SeriesState | None
    ) -> NoReturn:
        if committed.never:
            raise AirflowFailException(committed.reason)
        self.log.info("No window is complete yet: %s", committed.reason)
        self._defer(announcer, state, any_watermark=True)

    def _contents(
        self, announcer: WindowAnnouncer, state: SeriesState, until: datetime, output: str
    ) -> Mapping[str, str]:
        if self.content is None:
            return {}
        from airflow_streaming.supervision.readiness.closed_windows import contents_to_read

        windows = (
            ClosedWindow(stream=self.stream, start=start, end=start + self.every, output=output)
            for start in contents_to_read(state, until, announcer.terms)
        )
        return {window_key(one.start): str(self.content(one)) for one in windows}

    def _emit(self, claim: WindowClaim, context: Context) -> dict[str, Any]:
        keys = [window.key for window in claim.windows]
        revisions: dict[str, Any] = {window.key: window.revision for window in claim.windows}
        events = context["outlet_events"][self.asset]
        events.add_partitions(keys)
        # Airflow writes the events in the order of this set.
        events.partition_keys = OrderedKeys(keys)
        receipt: dict[str, Any] = {
            "stream": self.stream,
            "series": claim.series,
            "claim": claim.number,
        }
        events.extra.update(receipt, revisions=revisions)
        context["outlet_events"][self.receipts].extra.update(receipt)
        self.log.info("Announcing %d windows, %s to %s.", len(keys), keys[0], keys[-1])
        return {"claim": claim.number, "windows": revisions}

    def _defer(
        self, announcer: WindowAnnouncer, state: SeriesState | None, *, any_watermark: bool = False
    ) -> NoReturn:
        from airflow_streaming.supervision.readiness.closed_windows import next_end
        from airflow_streaming.triggers.windows import WindowsTrigger  # not at dag parse

        until: str | None = None
        if state is not None:
            until = format_time(next_end(state, announcer.terms))
        elif any_watermark:
            until = format_time(datetime(1970, 1, 1, tzinfo=UTC))
        trigger = WindowsTrigger(
            stream=self.stream,
            home=self.home,
            home_conn_id=self.home_conn_id,
            series=announcer.series,
            until=until,
            requests=announcer.seen_requests,
            query=self.query or None,
            deferred_at=datetime.now(UTC).isoformat(),
        )
        self.defer(trigger=trigger, method_name="execute_complete")


def receipts_of(asset: Asset) -> Asset:
    """Return the asset of the receipts for the windows of an asset."""
    mark = "&" if "?" in asset.uri else "?"
    return Asset(
        name=f"{asset.name}.receipts", uri=f"{asset.uri}{mark}receipts=1", group=asset.group
    )


class OrderedKeys(set[str]):
    """Partition keys in the order in which their events are written."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(keys)
        self._keys = list(dict.fromkeys(keys))

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)


class AnnounceWindowsOperator(NamedParameters, BaseOperator):
    """
    Request that complete windows of a range are announced again, for a backfill.

    The task of ``ClosedWindowsOperator`` announces them, each with the next revision. Windows of the range that
    are not announced yet are announced when they are complete. The return value is the number of the request.

    :param stream: The stream's name. (templated)
    :param home: The home's URI. (templated)
    :param start: Begin of the range, ISO 8601 with a time zone. (templated)
    :param end: End of the range. (templated)
    :param reason: Why, for the record. (templated)
    :param every: Length of the windows; with ``query`` it names the series.
    :param query: The query of the series. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    """

    template_fields: Sequence[str] = (
        *("stream", "home", "start", "end"),
        *("reason", "query", "home_conn_id"),
    )
    ui_color = "#d5ecd9"

    @checked
    def __init__(
        self,
        *,
        stream: str,
        home: str,
        start: str,
        end: str,
        reason: str,
        every: _Least = timedelta(hours=1),
        query: str | None = None,
        home_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream, self.home, self.query = stream, home, query
        self.start, self.end, self.reason = start, end, reason
        self.every, self.home_conn_id = every, home_conn_id
        check_literals(self, OF_A_STREAM)

    def execute(self, context: Context) -> int:
        from airflow_streaming.hooks.home import StreamHomeHook  # not at dag parse
        from airflow_streaming.services.windows import request_windows

        with spec_errors_are_final():
            home = StreamHomeHook(self.home, self.home_conn_id).get_conn()
            request = request_windows(
                home.stream(self.stream),
                series_name(self.every, self.query or None),
                parse_time(self.start, "start"),
                parse_time(self.end, "end"),
                by=who(context),
                reason=self.reason,
            )
        self.log.info("Request %d: windows of %s.", request.number, request)
        return request.number
