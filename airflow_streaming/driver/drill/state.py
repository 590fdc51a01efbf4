"""
Opening state with Spark's state reader, which came with 4.0.

The rows of every store are counted. Counting loads the version into a store of its own, of every
partition, just as a restarted query would; it writes nothing to the checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

_JOIN = "symmetricHashJoin"


class Look(NamedTuple):
    """
    One question to the state reader.

    :param subject: What it is about, in words.
    :param options: Options of the reader that ask it.
    """

    subject: str
    options: dict[str, str]


def looks_at(stores: list[dict[str, Any]]) -> list[Look]:
    """
    Return the questions that open all the state there is.

    :param stores: Rows of the ``state-metadata`` reader, one for each store.
    """
    looks: dict[str, Look] = {}
    for store in stores:
        operator, name = store["operatorId"], store["operatorName"]
        subject = f"operator {operator} ({name})"
        for what, options in _parts(store):
            look = Look(f"{subject}{what}", {"operatorId": str(operator), **options})
            looks[look.subject] = look
    return list(looks.values())


def _parts(store: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    if store["operatorName"] == _JOIN:
        # A side is kept in two stores, or in one for both sides; the reader joins them to rows.
        for side in ("left", "right"):
            yield f", {side} side", {"joinSide": side}
        return
    properties = json.loads(store.get("operatorProperties") or "{}")
    variables = properties.get("stateVariables") or []
    for variable in variables:
        name = str(variable.get("stateName", ""))
        # Names with a dollar are Spark's own, and cannot be asked for.
        if name and not name.startswith("$"):
            yield f", variable {name}", {"stateVarName": name}
    if variables and properties.get("timeMode", "NoTime") != "NoTime":
        yield ", timers", {"readRegisteredTimers": "true"}
    if not variables:
        yield "", {"storeName": store["stateStoreName"]}


def reader_session(session: Any, *, state_format: int) -> Any:
    """
    Return a session for the reader, apart from what the script has set in its own.

    :param state_format: State checkpoint format. The reader goes by the session's, not by what the
        checkpoint says.
    """
    reader = session.newSession()
    reader.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", str(state_format))
    # Before 4.3 the coordinator of state stores is there only once somebody asked for the queries.
    reader._jsparkSession.streams()
    return reader


def read_stores(session: Any, checkpoint: str) -> list[dict[str, Any]]:
    """Return what the checkpoint's operator metadata says of its stores."""
    rows = session.read.format("state-metadata").load(checkpoint).collect()
    return [row.asDict() for row in rows]


def count_rows(session: Any, checkpoint: str, batch: int, look: Look) -> int:
    """Open one store as it was after a batch, in every partition, and count its rows."""
    reader = session.read.format("statestore").option("batchId", str(batch))
    for key, value in look.options.items():
        reader = reader.option(key, value)
    return int(reader.load(checkpoint).count())
