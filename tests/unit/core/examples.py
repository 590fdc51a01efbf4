"""At least one example of every record."""

from __future__ import annotations

from typing import Final

from airflow_streaming.core.control import Desired, DesiredState, Event, EventKind
from airflow_streaming.core.epoch import QueryClaim
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
    an_exit(conditions=("STREAM_FAILED", "NO_SPACE"), query="revenue", batch_id=41),
    Desired(number=1, state=DesiredState.STOPPED, by="kim", reason="Schönes Wetter.", at=NOW),
    Event(event=EventKind.LAUNCHED, at=NOW, by="kim", message="Up.", epoch=3, facts={"pid": "7"}),
    Event(event=EventKind.DESIRED, at=NOW, by="kim", message="\0 \N{SNOWMAN} \ud800"),
    QueryClaim(query="revenue", query_id="q-1", checkpoint="/c/revenue", epoch=EPOCH),
)
