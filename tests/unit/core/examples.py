"""At least one example of every record."""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.alerts.alert import Alert, AlertKind, AlertSent, AlertTry
from airflow_streaming.core.blackout import Blackout
from airflow_streaming.core.control import Desired, DesiredState, Event, EventKind
from airflow_streaming.core.epoch import QueryClaim
from airflow_streaming.core.failures.kind import FailureKind
from airflow_streaming.core.health import HealthRules
from airflow_streaming.core.policy import RestartPolicy
from airflow_streaming.core.rules.rule import HealthRule, Metric, Severity
from airflow_streaming.core.supervision import Supervision
from airflow_streaming.core.wire import Record
from tests.unit.core.builders import (
    EPOCH,
    NOW,
    a_circuit,
    a_death,
    a_deployment,
    a_give_up,
    a_launch,
    a_query,
    a_restart,
    a_status,
    a_stop,
    an_epoch,
    an_exit,
)

EXAMPLES: Final[tuple[Record, ...]] = (
    Alert(
        number=1,
        stream="orders",
        alert=AlertKind.UNHEALTHY,
        key="late/revenue",
        epoch=EPOCH,
        at=NOW,
        by="kim",
        reason="Late.",
        severity=Severity.RESTART,
        rule="late",
        query="revenue",
        facts={"figure": "0.62"},
    ),
    AlertTry(number=1, attempt=1, at=NOW, by="kim"),
    AlertSent(number=1, outcome="sent", at=NOW),
    a_circuit(),
    a_death(),
    a_deployment(),
    a_deployment(conf={}, env=(), jars=(), colour="green"),
    a_give_up(),
    a_launch(),
    a_restart(),
    a_status(),
    a_status(queries=(), first_progress_at=None, application_id="local-1", ui_url="http://h:4040"),
    a_status(queries=(a_query(), a_query(name="raw", progress=None, error="it broke"))),
    a_stop(),
    an_epoch(),
    an_exit(),
    a_stop(verdict=Severity.RESTART),
    Supervision(
        number=1,
        by="kim",
        at=NOW,
        health=HealthRules(
            rules=(HealthRule(name="late", metric=Metric.WATERMARK_DELAY_SECONDS, bound=60.0),)
        ),
        restart=RestartPolicy(blackouts=(Blackout(start="22:00", end="06:00", days=(5,)),)),
    ),
    an_exit(conditions=("STREAM_FAILED", "NO_SPACE"), query="revenue", batch_id=41),
    an_exit(
        failure_kind=FailureKind.USER_CODE,
        signature="0a1b",
        offsets=('{"orders":{"0":12}}', "-"),
    ),
    Desired(number=1, state=DesiredState.STOPPED, by="kim", reason="Schönes Wetter.", at=NOW),
    Event(event=EventKind.LAUNCHED, at=NOW, by="kim", message="Up.", epoch=3, facts={"pid": "7"}),
    Event(event=EventKind.DESIRED, at=NOW, by="kim", message="\0 \N{SNOWMAN} \ud800"),
    QueryClaim(query="revenue", query_id="q-1", checkpoint="/c/revenue", epoch=EPOCH),
)
