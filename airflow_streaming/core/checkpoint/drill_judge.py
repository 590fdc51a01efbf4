"""What the events of a drill amount to: problems and facts, in sentences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from airflow_streaming.core.checkpoint.drill import (
    INPUT_GONE,
    Drilled,
    DrilledQuery,
    DrillEvent,
    DrillOrder,
    Told,
)
from airflow_streaming.core.failures.text import presentable


def judge(order: DrillOrder, events: Sequence[DrillEvent], failure: str = "") -> Drilled:
    """
    Return what the events of a drill amount to.

    :param failure: How the driver ended otherwise than by its own word, a sentence.
    """
    spark = next((e.text for e in events if e.told is Told.SPARK), "unknown")
    facts = {"spark": spark, "script": order.application or "none, so no batch was run"}
    problems: list[str] = []
    for query in order.queries:
        told = [e for e in events if e.query == query.folder and e.told is not Told.NOT_IN_BACKUP]
        prefix = f"{query.folder}." if query.folder else ""
        facts[f"{prefix}state"] = _state_fact(query, told)
        problems += _state_problems(query, told, spark)
        if order.application:
            facts[f"{prefix}batch"] = _batch_fact(query, told)
            # A driver that did not come to its end has a problem of its own.
            if not failure or any(e.told is Told.BATCH_FAILED for e in told):
                problems.append(_batch_problem(query, told, events))
    left_out = [e.text for e in events if e.told is Told.NOT_IN_BACKUP]
    if left_out:
        facts["not_in_backup"] = ", ".join(sorted(set(left_out)))
    if failure:
        problems.append(failure)
    return Drilled(problems=tuple(presentable(p) for p in problems if p), facts=facts)


def _state_fact(query: DrilledQuery, told: Iterable[DrillEvent]) -> str:
    if query.state_note:
        return query.state_note
    opened = [f"{e.subject}: {e.rows} rows" for e in told if e.told is Told.STATE]
    return "; ".join(opened) or "not opened"


def _state_problems(query: DrilledQuery, told: Iterable[DrillEvent], spark: str) -> list[str]:
    return [
        f"{query.shown}: Spark {spark} cannot open the state of {e.subject} at batch "
        f"{query.batch}: {e.text} Do not rely on this backup; choose another one and look for what "
        "damaged it."
        for e in told
        if e.told is Told.STATE_FAILED
    ]


def _batch_fact(query: DrilledQuery, told: Iterable[DrillEvent]) -> str:
    for event in told:
        if event.told is Told.BATCH:
            again = " again" if (event.batch or 0) <= query.batch else ""
            # The file source passes over files that are gone without a word.
            gone = query.has_input and not event.rows
            doubt = ", although its plan reads some: the input may be gone" if gone else ""
            return f"batch {event.batch} ran{again}, {event.rows or 0} rows of input{doubt}"
        if event.told is Told.NO_BATCH:
            return f"started, and no batch was run: {query.run_note or 'there is no new input.'}"
    return "not run"


def _batch_problem(
    query: DrilledQuery, told: Sequence[DrillEvent], events: Sequence[DrillEvent]
) -> str:
    for event in told:
        if event.told is Told.BATCH_FAILED:
            return _batch_failed(query, event)
        if event.told in {Told.BATCH, Told.NO_BATCH}:
            return ""
    script = next((e for e in events if e.told is Told.SCRIPT_FAILED), None)
    if script is not None:
        return (
            f"{query.shown} was not run, because the script failed first: {script.text} Only its "
            "state was looked at. Give the drill the script, arguments and configuration that the "
            "stream runs with."
        )
    return (
        f"{query.shown} is in the backup, but the script did not start it; only its state was "
        "looked at. Drill with the script that belongs to this backup."
    )


_GONE: Final = re.compile(
    r"FILE_NOT_EXIST|FILE_NOT_FOUND|FileNotFound|PATH_NOT_FOUND|Path does not exist"
    r"|does not exist.{0,80}underlying files"
    r"|DATA_LOSS|data may have been lost|OffsetOutOfRange|NoOffsetForPartition|Wrong basePath"
)
_STATE: Final = re.compile(r"STATE_STORE|/state/\d+/|STREAMING_STATE|_stateSchema|_metadata/")


def is_input_gone(text: str) -> bool:
    """Tell whether an error says that input is missing, and not a file of the state."""
    return _GONE.search(text) is not None and _STATE.search(text) is None


def _batch_failed(query: DrilledQuery, event: DrillEvent) -> str:
    batch = "a batch" if query.runs is None else f"batch {query.runs}"
    if event.subject == INPUT_GONE:
        return (
            f"{query.shown}: the input of {batch} is no longer there, so that it could not be run: "
            f"{event.text} That says nothing against the backup. Drill a newer backup, or keep "
            "the input as long as backups are to be drilled."
        )
    return f"{query.shown}: {batch} does not run on this backup: {event.text} {event.remedy}"
