"""Gate a dag on the health of a stream."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn

from airflow.sdk import BaseSensorOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.readiness import Readiness, ReadinessState, assess
from airflow_streaming.core.restart import RestartPolicy
from airflow_streaming.hooks.home import StreamHomeHook
from airflow_streaming.triggers.stream import StreamHealthTrigger, seconds_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_streaming.launch.observer import Observer

LISTEN: Final = timedelta(seconds=15)
"""How long a poke listens for a heartbeat: drivers beat every 2 s, and every 10 s under load."""


class StreamHealthSensor(BaseSensorOperator):
    """
    Wait until a stream has been healthy for a time.

    Healthy means that its queries make progress, or wait because no source has data, and that the
    driver's heartbeat is seen to rise. The sensor fails at once, without retries, when the stream
    will not become healthy by itself: it is stopped, or its circuit is open.

    :param home: The home's URI. (templated)
    :param stream: The stream's name. (templated)
    :param healthy_for: How long the stream has to have made progress in its present epoch.
    :param home_conn_id: Connection with credentials for the home. (templated)
    :param rules: When a silent driver counts as hung.
    :param deferrable: Wait in the triggerer; else poke or reschedule, as ``mode`` says.
    """

    template_fields: Sequence[str] = ("home", "stream", "home_conn_id")
    ui_color = "#f9e0c7"

    def __init__(
        self,
        *,
        home: str,
        stream: str,
        healthy_for: timedelta = timedelta(0),
        home_conn_id: str | None = None,
        rules: HealthRules | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.home = home
        self.stream = stream
        self.healthy_for = healthy_for
        self.home_conn_id = home_conn_id
        self.rules = rules or HealthRules()
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:
        if self.deferrable:
            self._defer()
        return super().execute(context)

    def _defer(self) -> NoReturn:
        self.defer(
            trigger=StreamHealthTrigger(
                home=self.home,
                stream=self.stream,
                home_conn_id=self.home_conn_id,
                deferred_at=datetime.now(UTC).isoformat(),
                poll_seconds=self.poke_interval,
                healthy_for_seconds=self.healthy_for.total_seconds(),
                rules=seconds_of(self.rules),
            ),
            method_name="execute_complete",
            timeout=timedelta(seconds=self.timeout),
        )

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """End with what the trigger found."""
        self._conclude(Readiness(state=ReadinessState(event["state"]), reason=str(event["reason"])))

    def poke(self, context: Context) -> bool:
        observer, deadline = self._observer(), time.monotonic() + LISTEN.total_seconds()
        readiness = assess(observer.situation(), self.healthy_for)
        # Two looks at the least: one status may have been written by a driver long dead.
        while readiness.state is ReadinessState.WAITING and time.monotonic() < deadline:
            time.sleep(1.0)
            readiness = assess(observer.situation(), self.healthy_for)
        return self._conclude(readiness)

    def _observer(self) -> Observer:
        from airflow_streaming.launch.local import LocalLauncher  # not at parse
        from airflow_streaming.launch.observer import Observer

        hook = StreamHomeHook(self.home, self.home_conn_id, looks_only=True)
        home = hook.get_conn().stream(self.stream)
        return Observer(home, LocalLauncher(), rules=self.rules, policy=RestartPolicy())

    def _conclude(self, readiness: Readiness) -> bool:
        if readiness.state is ReadinessState.LOST:
            raise AirflowFailException(
                f"Stream {self.stream!r} will not become healthy by itself: {readiness.reason}"
            )
        self.log.info("%s", readiness.reason)
        return readiness.state is ReadinessState.READY
