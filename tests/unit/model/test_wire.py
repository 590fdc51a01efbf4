"""Records survive the trip to JSON and back, and nothing else gets in."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar

import pytest

import airflow_streaming.checkpoints
import airflow_streaming.model
from airflow_streaming.exceptions import RecordError, RecordFormatError
from airflow_streaming.model.codec import format_time, parse_time
from airflow_streaming.model.progress import BatchProgress
from airflow_streaming.model.records.deployment import Deployment
from airflow_streaming.model.records.epoch import Epoch, Exit
from airflow_streaming.model.status import Status
from airflow_streaming.model.wire import MAX_RECORD_BYTES, Record, decode, parse_json
from tests.unit.model.examples import EXAMPLES
from tests.unit.supervision.builders import (
    NOW,
    a_batch,
    a_deployment,
    a_restart,
    a_status,
    a_stop,
    an_epoch,
    an_exit,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed(Record):
    """A record with a number that may be a fraction."""

    KIND: ClassVar[str] = "weighed"

    weight: float = 1.5


def record_classes() -> set[type[Record]]:
    for room in (airflow_streaming.model, airflow_streaming.checkpoints):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            importlib.import_module(module.name)
    ours = (cls for cls in _below(Record) if cls.__module__.startswith("airflow_streaming."))
    # What has no kind of its own is a base of records.
    return {cls for cls in ours if hasattr(cls, "KIND")}


def _below(cls: type[Record]) -> Iterator[type[Record]]:
    for sub in cls.__subclasses__():
        # A dataclass with slots is made twice; the first try lingers until it is collected.
        if getattr(sys.modules[sub.__module__], sub.__name__) is sub:
            yield sub
        yield from _below(sub)


def _id(value: object) -> str:
    return type(value).__name__


def test_every_record_has_an_example() -> None:
    assert record_classes() == {type(example) for example in EXAMPLES}


def test_no_two_records_have_the_same_kind() -> None:
    kinds = [cls.KIND for cls in record_classes()]

    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize("record", EXAMPLES, ids=_id)
def test_a_record_survives_the_round_trip(record: Record) -> None:
    assert type(record).from_bytes(record.to_bytes()) == record


@pytest.mark.parametrize("record", EXAMPLES, ids=_id)
def test_the_same_record_is_always_the_same_bytes(record: Record) -> None:
    assert type(record).from_bytes(record.to_bytes()).to_bytes() == record.to_bytes()


@pytest.mark.parametrize("record", EXAMPLES, ids=_id)
def test_fields_of_a_newer_release_are_ignored(record: Record) -> None:
    data = record.to_dict() | {"invented_later": {"any": ["thing"]}}

    assert type(record).from_dict(data) == record


def test_unknown_fields_of_a_nested_value_are_ignored() -> None:
    data = a_status().to_dict()
    data["queries"][0]["invented_later"] = 1

    assert Status.from_dict(data) == a_status()


@pytest.mark.parametrize("record", EXAMPLES, ids=_id)
def test_every_record_refuses_a_version_and_a_kind_it_does_not_know(record: Record) -> None:
    with pytest.raises(RecordError, match=f"reads version 1 of '{record.KIND}' records, found 2"):
        type(record).from_dict(record.to_dict() | {"version": 2})
    with pytest.raises(RecordError, match=f"Expected a '{record.KIND}' record, found 'other'"):
        type(record).from_dict(record.to_dict() | {"kind": "other"})


@pytest.mark.parametrize("version", [0, -1, None, "1", True, 1.0, [1], {}], ids=repr)
def test_only_a_whole_number_is_a_version(version: object) -> None:
    with pytest.raises(RecordFormatError):
        Exit.from_dict(an_exit().to_dict() | {"version": version})


@pytest.mark.parametrize("kind", [None, 1, ["exit"], {"exit": 1}, "Exit", ""], ids=repr)
def test_only_the_exact_kind_is_accepted(kind: object) -> None:
    with pytest.raises(RecordError, match=r"^Expected a 'exit' record, found "):
        Exit.from_dict(an_exit().to_dict() | {"kind": kind})


def test_a_required_field_that_is_missing_is_named() -> None:
    data = an_epoch().to_dict()
    del data["host"]["name"]

    with pytest.raises(RecordError, match=r"^epoch\.host\.name is missing\.$"):
        Epoch.from_dict(data)


def test_a_field_with_a_default_may_be_missing() -> None:
    data = an_exit().to_dict()
    del data["conditions"]

    assert Exit.from_dict(data) == an_exit()


@pytest.mark.parametrize(
    ("record", "path", "value", "sentence"),
    [
        (an_epoch(), ("number",), "17", "epoch.number: expected int, found '17'."),
        (an_epoch(), ("number",), 17.0, "epoch.number: expected int, found 17.0."),
        (an_epoch(), ("number",), True, "epoch.number: expected int, found True."),
        (an_epoch(), ("number",), [[]], "epoch.number: expected int, found list."),
        (an_epoch(), ("number",), None, "epoch.number: expected int, found None."),
        (an_epoch(), ("stream",), 5, "epoch.stream: expected str, found 5."),
        (an_epoch(), ("stream",), {"a": 1}, "epoch.stream: expected str, found dict."),
        (an_epoch(), ("host",), "worker-1", "epoch.host: expected an object, found str."),
        (an_epoch(), ("host", "boot"), 1, "epoch.host.boot: expected str, found 1."),
        (an_epoch(), ("cause",), "whim", "epoch.cause: 'whim' is not one of first, restart"),
        (an_epoch(), ("cause",), 3, "epoch.cause: 3 is not one of first, restart"),
        (an_epoch(), ("created_at",), 0, "epoch.created_at: expected str, found 0."),
        (an_epoch(), ("created_at",), "noon", "epoch.created_at: 'noon' is not an ISO 8601 time."),
        (
            an_epoch(),
            ("created_at",),
            "2026-11-21T12:00:00",
            "epoch.created_at: '2026-11-21T12:00:00' does not say its time zone.",
        ),
        (
            an_epoch(),
            ("created_at",),
            "0001-01-01T00:00:00+14:00",
            "epoch.created_at: '0001-01-01T00:00:00+14:00' is not an ISO 8601 time.",
        ),
        (an_exit(), ("retryable",), 1, "exit.retryable: expected bool, found 1."),
        (an_exit(), ("batch_id",), False, "exit.batch_id: expected int, found False."),
        (an_exit(), ("conditions",), "A", "exit.conditions: expected a list, found str."),
        (an_exit(conditions=("A", "B")), ("conditions", 1), 2, "exit.conditions[1]: expected str"),
        (Weighed(), ("weight",), "1.5", "weighed.weight: expected float, found '1.5'."),
        (Weighed(), ("weight",), True, "weighed.weight: expected float, found True."),
        (Weighed(), ("weight",), 10**400, "weighed.weight: the number is too large."),
        (a_deployment(), ("conf",), [], "deployment.conf: expected an object, found list."),
        (
            a_deployment(),
            ("conf", "spark.master"),
            1,
            "deployment.conf.spark.master: expected str, found 1.",
        ),
        (
            a_status(),
            ("queries", 0, "progress", "input_rows"),
            "many",
            "status.queries[0].progress.input_rows: expected int, found 'many'.",
        ),
        (
            a_stop(),
            ("grace_seconds",),
            1e300,
            "stop: The grace of a stop must be between 0 s and one day.",
        ),
        (
            a_restart(),
            ("next_attempt_at",),
            None,
            "restart_decision: A restart needs the time of its next attempt; giving up has none.",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_the_path_of_its_field(
    record: Record, path: tuple[str | int, ...], value: object, sentence: str
) -> None:
    data: Any = record.to_dict()
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value

    with pytest.raises(RecordError) as refusal:
        type(record).from_dict(data)

    assert str(refusal.value).startswith(sentence)


def test_a_whole_number_is_accepted_where_a_fraction_may_stand() -> None:
    weighed = Weighed.from_dict(Weighed().to_dict() | {"weight": 3})

    assert weighed.weight == 3.0
    assert isinstance(weighed.weight, float)


def test_a_record_as_large_as_the_limit_is_read_and_one_byte_more_is_refused() -> None:
    data = an_exit().to_bytes()

    assert Exit.from_bytes(data.ljust(MAX_RECORD_BYTES)) == an_exit()
    with pytest.raises(RecordError, match=r"^Refused to parse 1048577 bytes .* limit is 1048576"):
        Exit.from_bytes(data.ljust(MAX_RECORD_BYTES + 1))


def test_a_record_that_no_reader_would_take_is_not_written() -> None:
    with pytest.raises(RecordError, match="cannot be written; the limit is 1048576"):
        an_exit(reason="x" * MAX_RECORD_BYTES).to_bytes()


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")], ids=str)
def test_a_number_that_is_none_is_not_written(number: float) -> None:
    with pytest.raises(RecordError, match="A 'weighed' record cannot be written"):
        Weighed(weight=number).to_bytes()


def test_a_naive_time_is_not_written() -> None:
    with pytest.raises(RecordError, match="has no time zone"):
        an_exit(ended_at=NOW.replace(tzinfo=None)).to_bytes()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_is_none_is_not_read(number: str) -> None:
    data = Weighed().to_bytes().replace(b"1.5", number.encode())

    with pytest.raises(RecordError, match=r"^Not valid JSON: "):
        Weighed.from_bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff\xfe\xfd",
        b'{"kind": "exit"} trailing',
        b"[" * 200_000,
        b'{"a":' * 150_000,
        b'{"kind": "exit", "version": ' + b"9" * 5_000 + b"}",
    ],
    ids=["nothing", "half", "binary", "two values", "list bomb", "object bomb", "huge number"],
)
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError, match=r"^Not valid JSON: "):
        Exit.from_bytes(data)


@pytest.mark.parametrize(
    ("data", "found"), [(b"[]", "list"), (b"null", "NoneType"), (b'"exit"', "str"), (b"7", "int")]
)
def test_json_that_is_no_object_is_refused(data: bytes, found: str) -> None:
    with pytest.raises(RecordError, match=f"^Expected a JSON object, found {found}.$"):
        parse_json(data)


def test_a_deeply_nested_value_in_a_known_field_is_refused_without_being_quoted() -> None:
    # Deep enough to break repr(), shallow enough for the parser.
    for depth in (100, 300, 900, 990):
        nested = "[" * depth + "]" * depth
        data = json.dumps(an_exit().to_dict() | {"reason": "HERE"}).replace('"HERE"', nested)

        with pytest.raises(RecordError):
            Exit.from_bytes(data.encode())


def test_a_message_quotes_no_more_than_a_little_of_what_was_read() -> None:
    long = "x" * 500_000
    for data in (
        {"kind": long},
        {"kind": "exit", "version": long},
        an_exit().to_dict() | {"outcome": long},
        an_exit().to_dict() | {"ended_at": long},
        an_exit().to_dict() | {"batch_id": long},
    ):
        with pytest.raises(RecordError) as refusal:
            Exit.from_dict(data)
        assert len(str(refusal.value)) < 300

    with pytest.raises(RecordError) as refusal:
        Deployment.from_dict(a_deployment().to_dict() | {"conf": {long: 1}})
    assert len(str(refusal.value)) < 300


def test_times_are_kept_to_the_microsecond_in_utc() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    moment = datetime(2026, 11, 21, 17, 30, 0, 123456, tzinfo=zone)

    assert format_time(moment) == "2026-11-21T12:00:00.123456+00:00"
    assert parse_time(format_time(moment), "at") == moment
    assert parse_time("2026-11-21T12:00:00Z", "at") == NOW
    assert parse_time("2026-11-21T17:30:00+05:30", "at").tzinfo is UTC


def test_a_value_inside_a_history_is_decoded_alone() -> None:
    line = a_status().to_dict()["queries"][0]["progress"]

    assert decode(BatchProgress, line, "line 3") == a_batch()
    with pytest.raises(RecordError, match=r"^line 3\.batch_id is missing\.$"):
        decode(BatchProgress, {k: v for k, v in line.items() if k != "batch_id"}, "line 3")
