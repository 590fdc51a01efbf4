"""
Requests to a deployment's store: who sent which verb for which kind of object. Pure.

nginx stands before the store and writes a line of JSON for each request. Airflow's processes name themselves in the
header ``User-Agent`` (``AWS_SDK_UA_APP_ID``); a JVM is known by its SDK, and what it asks for by the object's path.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

NAME_VARIABLE: Final = "AWS_SDK_UA_APP_ID"
"""Environment variable: the name of a process in the ``User-Agent`` of its requests."""
PROGRAM: Final = "test program"
LOG_FORMAT: Final = (
    '{"verb":"$request_method","uri":"$request_uri","agent":"$http_user_agent","status":$status}'
)
HOUR: Final = 3600.0
LEAST_SHARE: Final = 0.01
"""Of all requests; rarer kinds are added up."""
_NAME: Final = re.compile(r"\bapp/([\w-]+)")
_RUN_TASKS: Final = ("scheduler", "worker")
_SPARK_FOLDERS: Final = {"checkpoints": "checkpoint", "output": "output"}
_EPOCH_FILES: Final = {
    "status.json": "heartbeat",
    "stop.json": "stop request",
    "progress": "history",
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Kind:
    """
    Kind of request.

    :param sender: Process of Airflow, ``driver`` for records that a driver asks for, ``Spark`` for its own files.
    :param of: Kind of object.
    """

    sender: str
    of: str
    verb: str


def counts(lines: Iterable[str], home: str) -> Counter[Kind]:
    """
    Count the lines of nginx's log.

    :param home: Path of the home in the store, with the bucket.
    """
    found: Counter[Kind] = Counter()
    for line in filter(str.strip, lines):
        request = json.loads(line)
        path = urlsplit(request["uri"])
        verb, target = _target(request["verb"], unquote(path.path).strip("/"), path.query)
        of = object_kind(target, home)
        found[Kind(sender=_sender(request["agent"], of), of=of, verb=verb)] += 1
    return found


def object_kind(target: str, home: str) -> str:
    """Return the kind of an object or folder by its path, with the bucket."""
    if not f"{target}/".startswith(f"{home}/"):
        return "task log" if "/logs" in target else "other"
    stream, *below = target.removeprefix(home).strip("/").split("/")
    if not stream:
        return "list of streams"
    if not stream[0].isalnum():
        return stream.lstrip("._")
    if not below:
        return "stream"
    folder, *rest = below
    return _epoch_kind(rest) if folder == "epochs" else _SPARK_FOLDERS.get(folder, folder)


def _epoch_kind(path: Sequence[str]) -> str:
    if not path:
        return "epochs"
    if len(path) == 1:
        return "newer epoch" if path[0].endswith(".json") else "epoch"
    return _EPOCH_FILES.get(path[1], "epoch")


def markdown(found: Counter[Kind], *, seconds: float, streams: int) -> str:
    """Return a table of the requests of an hour and stream: frequent kinds, then the rest of each sender."""
    rate, least = HOUR / seconds / streams, found.total() * LEAST_SHARE
    rest: Counter[str] = Counter()
    lines = ["| sender | object | verb | an hour and stream |", "|---|---|---|---|"]
    for kind, count in found.most_common():
        if count < least:
            rest[kind.sender] += count
        else:
            lines.append(f"| {kind.sender} | {kind.of} | {kind.verb} | {count * rate:,.0f} |")
    lines += [
        f"| {sender} | other kinds | | {count * rate:,.0f} |"
        for sender, count in rest.most_common()
    ]
    return "\n".join(lines)


def _target(verb: str, path: str, query: str) -> tuple[str, str]:
    """Return the verb in S3's words and the path that it is for."""
    options = parse_qs(query, keep_blank_values=True)
    if verb == "GET" and ("list-type" in options or "prefix" in options):
        prefix = options.get("prefix", [""])[0]
        return "LIST", f"{path}/{prefix}".strip("/")
    if verb == "POST" and "delete" in options:
        return "DELETE", path
    return verb, path


def _sender(agent: str, of: str) -> str:
    if "Java" in agent or "java" in agent:
        return "Spark" if of in (*_SPARK_FOLDERS.values(), "other") else "driver"
    named = _NAME.search(agent)
    name = named.group(1).replace("_", " ") if named else "unknown"
    return "task" if name.startswith(_RUN_TASKS) else re.sub(r"-\d+$", "", name)
