"""Gates on a stream: healthy, progressed, complete up to a time, little left to do, caught up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_streaming.core.gating import BacklogUnit, Condition
from airflow_streaming.core.subject import Subject
from airflow_streaming.core.times import parse_time
from airflow_streaming.exceptions import RecordError, SpecError
from airflow_streaming.sensors.gate import LISTEN, StreamGateSensor


class StreamHealthSensor(StreamGateSensor):
    """
    Wait until a stream has been healthy for a time.

    Healthy means that its queries make progress, or wait because no source has data, and that a
    sign of life was seen by whoever waits. A foreign stream without an endpoint shows life by its
    commits alone, so one that waits for data does not pass.

    :param healthy_for: How long the stream has to have been healthy: of this provider's, in its
        present epoch; a foreign one, under the eyes of this sensor.
    :param kwargs: Those of ``StreamGateSensor``, which say which stream, and of every sensor.
    """

    def __init__(self, *, healthy_for: timedelta = timedelta(0), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.healthy_for = healthy_for
        forgets = self.mode == "reschedule" and not self.deferrable
        if forgets and self.subject().is_foreign and healthy_for > LISTEN:
            raise SpecError(
                f"How long {self.checkpoint} has been healthy is timed by whoever listens, and in "
                "reschedule mode every poke begins anew. Use deferrable=True or mode='poke'."
            )

    def condition(self) -> Condition:
        return Condition(query=self.query, healthy_for=self.healthy_for)


class StreamProgressSensor(StreamGateSensor):
    """
    Wait until a stream has committed a certain batch, or any batch since a certain time.

    What is committed stays so: it passes for a stopped stream too, if the batch is there.

    :param batch: This batch, or a later one.
    :param committed_since: At or after this time, by the clock of whoever writes the checkpoint;
        a time with its zone, or ISO 8601 that names its zone. (templated)
    :param kwargs: Those of ``StreamGateSensor``, which say which stream, and of every sensor.
    """

    template_fields: Sequence[str] = (*StreamGateSensor.template_fields, "committed_since")

    def __init__(
        self,
        *,
        batch: int | None = None,
        committed_since: datetime | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if batch is None and committed_since is None:
            raise SpecError("What progress is waited for? Give batch= or committed_since=.")
        self.batch = batch
        self.committed_since = committed_since

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
    :param kwargs: Those of ``StreamGateSensor``, which say which stream, and of every sensor.
    """

    template_fields: Sequence[str] = (*StreamGateSensor.template_fields, "past")

    def __init__(self, *, past: datetime | str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.past = past

    def condition(self) -> Condition:
        return Condition(query=self.query, watermark=_moment(self.past, "past"))


class StreamBacklogSensor(StreamGateSensor):
    """
    Wait until little is left for a stream to read.

    The figure is that of the latest batch, so the stream has to be seen at work. A checkpoint alone
    tells no backlog: this sensor is for streams of this provider.

    :param below: The backlog has to be below this.
    :param unit: ``records``, ``bytes``, ``files`` or ``seconds``; records over the rate at which
        the stream processes them are seconds. Not every source tells each of them.
    :param kwargs: Those of ``StreamGateSensor``, which say which stream, and of every sensor.
    """

    def __init__(self, *, below: float, unit: str = "records", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if unit not in tuple(BacklogUnit):
            known = ", ".join(BacklogUnit)
            raise SpecError(f"A backlog is not counted in {unit!r}. Use one of {known}.")
        if self.subject().is_foreign:
            raise SpecError(
                "A checkpoint does not tell how much is left to read. Give stream= and home= of a "
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


class StreamCaughtUpSensor(StreamGateSensor):
    """
    Wait until a stream has read at least as far as another one stands.

    Their queries are compared by name; where both have a single query, these two. The offsets are
    those of the sources, so both have to read the same ones, in the same order.

    :param with_stream: Name of the other stream, when it is one of this provider. (templated)
    :param with_home: Its home; default: that of the stream that is asked. (templated)
    :param with_home_conn_id: Connection with credentials for that home; default: likewise.
        (templated)
    :param with_checkpoint: Checkpoint of the other stream, when it is a foreign one. (templated)
    :param with_conn_id: Connection with credentials for that checkpoint's store. (templated)
    :param kwargs: Those of ``StreamGateSensor``, which say which stream, and of every sensor.
    """

    template_fields: Sequence[str] = (
        *StreamGateSensor.template_fields,
        "with_stream",
        "with_home",
        "with_home_conn_id",
        "with_checkpoint",
        "with_conn_id",
    )

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
        self.other()

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
            raise SpecError(f"{field}={told} does not say its time zone. Give a time that does.")
        return told.astimezone(UTC)
    try:
        return parse_time(told, field)
    except RecordError as err:
        raise SpecError(f"{err} Give a time such as '{{{{ data_interval_end }}}}'.") from err
