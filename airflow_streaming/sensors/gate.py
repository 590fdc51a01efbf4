"""What every gate on a stream has in common: whom it asks, how it waits, and how it ends."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk import BaseSensorOperator
from airflow.sdk.bases.sensor import PokeReturnValue
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.gating import Condition
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.readiness import Readiness, ReadinessState
from airflow_streaming.core.sight import Sight
from airflow_streaming.core.subject import Subject
from airflow_streaming.exceptions import HomeUnavailable, RecordError
from airflow_streaming.hooks._final import spec_errors_are_final
from airflow_streaming.triggers.gate import GateTrigger, StreamGate

if TYPE_CHECKING:
    from airflow.sdk import Context

LISTEN: Final = timedelta(seconds=15)
"""How long a poke listens for a sign of life: drivers beat every 2 s, and every 10 s under load."""


class StreamGateSensor(BaseSensorOperator):
    """
    Wait until a stream meets a condition; the sensors of this provider are made of it.

    The stream is either one of this provider, named by ``stream`` and ``home``, or any Spark stream
    at all, named by its ``checkpoint``. It fails at once, without retries, when the stream will not
    meet the condition by itself: it is stopped, or its circuit is open. It returns what it saw:
    ``stream``, ``batch``, ``watermark`` (the least of all its queries) and ``reason``.

    :param stream: Name of a stream of this provider. (templated)
    :param home: The home's URI. (templated)
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param checkpoint: Checkpoint of any Spark query, or the folder above the checkpoints of one
        application. (templated)
    :param endpoint: ``http://host:port`` of that application's web page, which tells a query that
        waits from one that is dead. Has to be listed in ``[streaming] metrics_endpoints``.
        (templated)
    :param conn_id: Connection with credentials for the checkpoint's store. (templated)
    :param query: Ask this query only; default: every query of the stream has to meet the
        condition. (templated)
    :param rules: What health is judged by; default: what the stream itself is watched by.
    :param deferrable: Wait in the triggerer; else poke or reschedule, as ``mode`` says.
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
        self.deferrable = deferrable
        self._gate: StreamGate | None = None
        self.subject()  # so that a stream that is named wrongly breaks the dag and not its run

    @abstractmethod
    def condition(self) -> Condition:
        """
        Return what the stream has to meet, from rendered fields.

        :raises SpecError: a field does not say what it should.
        """

    def other(self) -> Subject | None:
        """Return the stream to catch up with, if there is one."""
        return None

    def subject(self) -> Subject:
        """
        Return the stream that is asked.

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
        with spec_errors_are_final():
            other = self.other()
            trigger = GateTrigger(
                **self.subject().to_dict(),
                condition=self.condition().to_dict(),
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
        """End with what the trigger found."""
        readiness = Readiness(state=ReadinessState(event["state"]), reason=str(event["reason"]))
        self._conclude(readiness)
        return event.get("seen")

    def poke(self, context: Context) -> PokeReturnValue:
        with spec_errors_are_final():
            if self._gate is None:
                self._gate = StreamGate(
                    self.subject(), self.condition(), other=self.other(), rules=self.rules
                )
            try:
                readiness, sight = self._listen(self._gate)
            except (HomeUnavailable, RecordError) as err:
                # Not being able to look says nothing of the stream.
                self._gate.lose_sight()
                self.log.warning("Cannot look at %s: %s", self.subject().who, err)
                return PokeReturnValue(is_done=False)
        is_done = self._conclude(readiness)
        seen = self._gate.describe(readiness, sight) if is_done else None
        return PokeReturnValue(is_done=is_done, xcom_value=seen)

    def _listen(self, gate: StreamGate) -> tuple[Readiness, Sight]:
        deadline = time.monotonic() + LISTEN.total_seconds()
        readiness, sight = gate.look()
        # Two looks at the least: what one of them reads may have been written long ago.
        while (
            readiness.state is ReadinessState.WAITING
            and gate.needs_to_listen(sight)
            and time.monotonic() < deadline
        ):
            time.sleep(1.0)
            readiness, sight = gate.look()
        return readiness, sight

    def _conclude(self, readiness: Readiness) -> bool:
        if readiness.state is ReadinessState.LOST:
            raise AirflowFailException(
                f"Waiting for {self.subject().who} is no use: {readiness.reason}"
            )
        self.log.info("%s", readiness.reason)
        return readiness.state is ReadinessState.READY
