"""Gates on a stream: healthy, progressed, complete up to a time, little left to do, caught up."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NoReturn

from airflow.sdk import BaseSensorOperator
from airflow.sdk.bases.sensor import PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.exceptions import HomeUnavailable, RecordError, SpecError
from airflow_streaming.model.arguments.calls import NamedParameters, Way
from airflow_streaming.model.arguments.fields import Range, checked, is_filled_in, refuse_blank
from airflow_streaming.model.arguments.literals import OF_A_STREAM, check_literals, uri_of
from airflow_streaming.model.codec import parse_time
from airflow_streaming.model.health_rules import HealthRules
from airflow_streaming.model.names import check_stream_name
from airflow_streaming.supervision.external.address import parse_address
from airflow_streaming.supervision.readiness.subject import (
    BacklogUnit,
    Condition,
    Readiness,
    ReadinessState,
    Subject,
)
from airflow_streaming.task_errors import spec_errors_are_final

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.supervision.readiness.snapshot import StreamSnapshot
    from airflow_streaming.triggers.gate import StreamGate

_Span = Annotated[timedelta, Range(least=timedelta(0))]
LISTEN: Final = timedelta(seconds=15)
"""How long a poke listens for a sign of life: drivers beat every 2 s, and every 10 s under load."""


class StreamGateSensor(NamedParameters, BaseSensorOperator):
    """
    Wait until a stream meets a condition; the base of this provider's sensors.

    The stream is either one of this provider, named by ``stream`` and ``home``, or any Spark stream
    at all, named by its ``checkpoint``. The sensor fails at once, without retries, when the stream
    will not meet the condition without intervention: it is stopped, or its circuit is open. It
    waits for a restore, upgrade or cutover in progress. It returns its observation: ``stream``,
    ``batch``, ``watermark`` (the least of all its queries) and ``reason``.

    :param stream: Name of a stream of this provider. (templated)
    :param home: The home's URI. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param checkpoint: Checkpoint of any Spark query, or the folder above the checkpoints of one
        application. (templated)
    :param endpoint: ``http://host:port`` of that application's web page, which distinguishes an
        idle query from a dead one. It must be listed in ``[streaming] metrics_endpoints``.
        (templated)
    :param conn_id: Connection with credentials for the checkpoint's store. (templated)
    :param query: Check this query only; default: every query of the stream must meet the condition.
        (templated)
    :param rules: The health rules; default: the stream's own rules.
    :param tolerate_stop: Wait this long, since its stop, for a stream whose desired state is
        "stopped".
    :param deferrable: Wait in the triggerer; otherwise poke or reschedule, by ``mode``.
    """

    template_fields: Sequence[str] = (
        "stream",
        "home",
        "home_conn_id",
        "checkpoint",
        "endpoint",
        "conn_id",
        "query",
    )
    ui_color = "#f9e0c7"
    either: ClassVar[Sequence[Sequence[Way]]] = (
        (
            Way(("stream", "home"), ("home_conn_id",)),
            Way(("checkpoint",), ("endpoint", "conn_id")),
        ),
    )

    @checked
    def __init__(
        self,
        *,
        stream: str | None = None,
        home: str | None = None,
        home_conn_id: str | None = None,
        checkpoint: str | None = None,
        endpoint: str | None = None,
        conn_id: str | None = None,
        query: str | None = None,
        rules: HealthRules | None = None,
        tolerate_stop: _Span | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.stream = stream
        self.home = home
        self.home_conn_id = home_conn_id
        self.checkpoint = checkpoint
        self.endpoint = endpoint
        self.conn_id = conn_id
        self.query = query
        self.rules = rules
        self.tolerate_stop = tolerate_stop
        self.deferrable = deferrable
        self._gate: StreamGate | None = None
        names = {"stream": stream, "home": home, "checkpoint": checkpoint, "endpoint": endpoint}
        refuse_blank(type(self).__name__, **names)
        # So that a stream that is named wrongly breaks the dag and not its run.
        self.subject()
        check_literals(
            self,
            {**OF_A_STREAM, "checkpoint": uri_of("checkpoint"), "endpoint": parse_address},
        )

    @abstractmethod
    def condition(self) -> Condition:
        """
        Return the condition, from rendered fields.

        :raises SpecError: a field is invalid.
        """

    def _asked(self) -> Condition:
        return replace(self.condition(), tolerate_stop=self.tolerate_stop)

    def other(self) -> Subject | None:
        """Return the stream to catch up with, if there is one."""
        return None

    def subject(self) -> Subject:
        """
        Return the stream of this sensor.

        :raises SpecError: it is named in no way, or in two.
        """
        return Subject(
            stream=self.stream,
            home=self.home,
            home_conn_id=self.home_conn_id,
            checkpoint=self.checkpoint,
            endpoint=self.endpoint,
            conn_id=self.conn_id,
        )

    def execute(self, context: Context) -> Any:
        if self.deferrable:
            self._defer()
        return super().execute(context)

    def _defer(self) -> NoReturn:
        from airflow_streaming.triggers.gate import GateTrigger  # not at dag parse

        with spec_errors_are_final():
            other = self.other()
            trigger = GateTrigger(
                **self.subject().to_dict(),
                condition=self._asked().to_dict(),
                other=other.to_dict() if other is not None else None,
                rules=self.rules.to_dict() if self.rules is not None else None,
                deferred_at=datetime.now(UTC).isoformat(),
                poll_seconds=self.poke_interval,
            )
        self.defer(
            trigger=trigger,
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Return or raise the trigger's result."""
        readiness = Readiness(state=ReadinessState(event["state"]), reason=str(event["reason"]))
        self._conclude(readiness)
        return event.get("seen")

    def poke(self, context: Context) -> PokeReturnValue:
        from airflow_streaming.triggers.gate import StreamGate  # not at dag parse

        with spec_errors_are_final():
            if self._gate is None:
                self._gate = StreamGate(
                    self.subject(), self._asked(), other=self.other(), rules=self.rules
                )
            try:
                readiness, snapshot = self._listen(self._gate)
            except (HomeUnavailable, RecordError) as err:
                self._gate.lose_sight()
                self.log.warning("Cannot look at %s: %s", self.subject().who, err)
                return PokeReturnValue(is_done=False)
        is_done = self._conclude(readiness)
        seen = self._gate.describe(readiness, snapshot) if is_done else None
        return PokeReturnValue(is_done=is_done, xcom_value=seen)

    def _listen(self, gate: StreamGate) -> tuple[Readiness, StreamSnapshot]:
        deadline = time.monotonic() + LISTEN.total_seconds()
        readiness, snapshot = gate.look()
        # Two looks at the least: what one of them reads may have been written long ago.
        while (
            readiness.state is ReadinessState.WAITING
            and gate.needs_to_listen(snapshot)
            and time.monotonic() < deadline
        ):
            time.sleep(1.0)
            readiness, snapshot = gate.look()
        return readiness, snapshot

    def _conclude(self, readiness: Readiness) -> bool:
        if readiness.state is ReadinessState.LOST:
            raise AirflowFailException(
                f"{self.subject().who} cannot meet the condition without a start or deploy: "
                f"{readiness.reason}"
            )
        self.log.info("%s", readiness.reason)
        return readiness.state is ReadinessState.READY


class StreamHealthSensor(StreamGateSensor):
    """
    Wait until a stream has been healthy for a time.

    Healthy means that its queries make progress, or wait because no source has data, and that a
    sign of life was observed while waiting. An external stream without an endpoint shows life by
    its commits alone, so it does not pass while it waits for data.

    :param healthy_for: How long the stream must have been healthy: a stream of this provider, in
        its present epoch; an external one, while this sensor watched.
    :param kwargs: Arguments of ``StreamGateSensor``, which select the stream, and of every sensor.
    """

    @checked
    def __init__(self, *, healthy_for: timedelta = timedelta(0), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.healthy_for = healthy_for
        forgets = self.mode == "reschedule" and not self.deferrable
        if forgets and self.subject().is_external and healthy_for > LISTEN:
            raise SpecError(
                f"The time for which {self.checkpoint} has been healthy is measured by the waiting task, "
                "and in reschedule mode every poke starts from zero. Use deferrable=True or mode='poke'."
            )

    def condition(self) -> Condition:
        return Condition(query=self.query, healthy_for=self.healthy_for)


class StreamProgressSensor(StreamGateSensor):
    """
    Wait until a stream has committed a certain batch, or any batch since a certain time.

    A commit is final: the sensor also passes for a stopped stream with this batch.

    :param batch: This batch, or a later one.
    :param committed_since: At or after this time, by the clock of the driver that writes the
        checkpoint; a time with its zone, or ISO 8601 that names its zone. (templated)
    :param kwargs: Arguments of ``StreamGateSensor``, which select the stream, and of every sensor.
    """

    template_fields: Sequence[str] = (*StreamGateSensor.template_fields, "committed_since")

    @checked
    def __init__(
        self,
        *,
        batch: int | None = None,
        committed_since: datetime | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if batch is None and committed_since is None:
            raise SpecError("StreamProgressSensor needs batch= or committed_since=.")
        self.batch = batch
        self.committed_since = committed_since
        if committed_since is not None and not is_filled_in(committed_since):
            _moment(committed_since, "committed_since")

    def condition(self) -> Condition:
        since = self.committed_since
        return Condition(
            query=self.query,
            batch=self.batch,
            committed_since=None if since is None else _moment(since, "committed_since"),
        )


class StreamWatermarkSensor(StreamGateSensor):
    """
    Wait until the watermark of a stream has passed a time, so that windows up to it are complete.

    With ``past="{{ data_interval_end }}"`` a batch dag reads only windows that the stream will not
    change any more. The watermark moves with the data: while a source is silent it stands still.

    :param past: The time; a time with its zone, or ISO 8601 that names its zone. (templated)
    :param kwargs: Arguments of ``StreamGateSensor``, which select the stream, and of every sensor.
    """

    template_fields: Sequence[str] = (*StreamGateSensor.template_fields, "past")

    @checked
    def __init__(self, *, past: datetime | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.past = past
        if not is_filled_in(past):
            _moment(past, "past")

    def condition(self) -> Condition:
        return Condition(query=self.query, watermark=_moment(self.past, "past"))


class StreamBacklogSensor(StreamGateSensor):
    """
    Wait until little is left for a stream to read.

    The figure is the latest batch's, so the stream must be observed while it works. A checkpoint
    alone has no backlog: this sensor is for streams of this provider.

    :param below: The backlog must be below this.
    :param unit: ``records``, ``bytes``, ``files`` or ``seconds``; records divided by the processing
        rate are seconds. Not every source reports each of them.
    :param kwargs: Arguments of ``StreamGateSensor``, which select the stream, and of every sensor.
    """

    @checked
    def __init__(self, *, below: float, unit: str = "records", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if unit not in tuple(BacklogUnit):
            known = ", ".join(BacklogUnit)
            raise SpecError(f"A backlog is not counted in {unit!r}. Use one of {known}.")
        if self.subject().is_external:
            raise SpecError(
                "A checkpoint does not record how much is left to read. Give stream= and home= of a "
                "stream of this provider, or wait with StreamCaughtUpSensor."
            )
        self.below = below
        self.unit = unit

    def condition(self) -> Condition:
        return Condition(
            query=self.query,
            backlog_below=self.below,
            backlog_unit=BacklogUnit(self.unit),
        )


class SafeToExpireSensor(StreamGateSensor):
    """
    Wait until a stream has read all data of its sources before a time.

    A task behind the sensor removes older data: it expires snapshots, vacuums a table, cleans a folder. The driver
    reports the position by time of topics, tables, and folders of its own host. A file counts as read when its batch
    is committed. The sensor also passes for a stopped stream, because its commits stay; after a restore it waits for
    the next batch.

    :param older_than: The task removes data that is older than this; a time with its zone, or ISO 8601 that names
        its zone. (templated)
    :param kwargs: Arguments of ``StreamGateSensor``, which select the stream, and of every sensor.
    """

    template_fields: Sequence[str] = (*StreamGateSensor.template_fields, "older_than")

    @checked
    def __init__(self, *, older_than: datetime | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.subject().is_external:
            raise SpecError(
                "A checkpoint does not record when unread data was written. SafeToExpireSensor needs stream= and home= "
                "of a stream of this provider."
            )
        self.older_than = older_than
        if not is_filled_in(older_than):
            _moment(older_than, "older_than")

    def condition(self) -> Condition:
        return Condition(query=self.query, read_until=_moment(self.older_than, "older_than"))


class StreamCaughtUpSensor(StreamGateSensor):
    """
    Wait until a stream has read at least as far as another stream.

    Their queries are compared by name; where both have a single query, these two. The offsets are
    the sources', so both must read the same ones, in the same order.

    :param with_stream: Name of the other stream, when it is one of this provider. (templated)
    :param with_home: Its home; default: this stream's home. (templated)
    :param with_home_conn_id: Connection with credentials for that home; default: likewise.
        (templated)
    :param with_checkpoint: Checkpoint of the other stream, when it is an external one. (templated)
    :param with_conn_id: Connection with credentials for that checkpoint's store. (templated)
    :param kwargs: Arguments of ``StreamGateSensor``, which select the stream, and of every sensor.
    """

    template_fields: Sequence[str] = (
        *StreamGateSensor.template_fields,
        "with_stream",
        "with_home",
        "with_home_conn_id",
        "with_checkpoint",
        "with_conn_id",
    )
    either: ClassVar[Sequence[Sequence[Way]]] = (
        *StreamGateSensor.either,
        (
            Way(("with_stream",), ("with_home", "with_home_conn_id")),
            Way(("with_checkpoint",), ("with_conn_id",)),
        ),
    )

    @checked
    def __init__(
        self,
        *,
        with_stream: str | None = None,
        with_home: str | None = None,
        with_home_conn_id: str | None = None,
        with_checkpoint: str | None = None,
        with_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.with_stream = with_stream
        self.with_home = with_home
        self.with_home_conn_id = with_home_conn_id
        self.with_checkpoint = with_checkpoint
        self.with_conn_id = with_conn_id
        names = {"with_stream": with_stream, "with_home": with_home}
        refuse_blank(type(self).__name__, **names, with_checkpoint=with_checkpoint)
        self.other()
        places = {"with_home": uri_of("home"), "with_checkpoint": uri_of("checkpoint")}
        check_literals(self, {"with_stream": check_stream_name, **places})

    def condition(self) -> Condition:
        return Condition(query=self.query)

    def other(self) -> Subject:
        """
        Return the stream to catch up with.

        :raises SpecError: it is named in no way, or in two.
        """
        home, home_conn_id = self.with_home, self.with_home_conn_id
        if home is None and self.with_stream is not None:
            home, home_conn_id = self.home, home_conn_id or self.home_conn_id
        try:
            return Subject(
                stream=self.with_stream,
                home=home,
                home_conn_id=home_conn_id,
                checkpoint=self.with_checkpoint,
                conn_id=self.with_conn_id,
            )
        except SpecError as err:
            raise SpecError(f"The stream to catch up with (with_stream=, ...): {err}") from err


def _moment(told: datetime | str, field: str) -> datetime:
    if isinstance(told, datetime):
        if told.tzinfo is None:
            raise SpecError(f"{field}={told} has no time zone. Give a time with one.")
        return told.astimezone(UTC)
    try:
        return parse_time(told, field)
    except RecordError as err:
        raise SpecError(f"{err} Give a time such as '{{{{ data_interval_end }}}}'.") from err
