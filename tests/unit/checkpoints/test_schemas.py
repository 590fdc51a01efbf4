"""State schemas of all three formats."""

from __future__ import annotations

import pytest

from airflow_streaming.checkpoints.read.schemas import (
    MAX_SCHEMA_BYTES,
    ColumnFamily,
    Field,
    StateSchema,
    parse_state_schema,
)
from airflow_streaming.exceptions import RecordError
from tests.unit.checkpoints.java_output import chunks, family, schema_v3, struct, utf
from tests.unit.checkpoints.parsers import STATE_VARIABLES

LONG = "spalte_ä_\0_😀_" * 2000
"""Longer than one chunk, with a character in it that is two of Java's."""


def text(name: str) -> Field:
    return Field(name=name, type="string", nullable=True)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        pytest.param(1, utf("v1") + utf(struct("k")) + utf(struct("v")), id="version 1"),
        pytest.param(2, utf("v2") + chunks(struct("k")) + chunks(struct("v")), id="version 2"),
    ],
)
def test_a_store_of_one_family_tells_its_key_and_its_value(version: int, data: bytes) -> None:
    only = ColumnFamily(name="default", key=(text("k"),), value=(text("v"),))

    assert parse_state_schema(data) == StateSchema(version=version, families=(only,))


@pytest.mark.parametrize("size", [21845, 4, 3])
def test_a_long_schema_is_put_together_from_its_chunks(size: int) -> None:
    data = utf("v2") + chunks(struct(LONG), size) + chunks(struct())

    (family,) = parse_state_schema(data).families

    assert family.key == (text(LONG),)


def test_a_store_of_many_families_tells_each() -> None:
    found = parse_state_schema(
        schema_v3(
            family("zähler", struct("k"), struct("n")),
            family("mp", struct("k", "u"), struct("v"), user_key=struct("u")),
        )
    )

    encoder = {"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"}
    ids = {"key_schema_id": 0, "value_schema_id": 1}
    counter, by_user = found.families
    assert found.version == 3
    assert counter == ColumnFamily(
        name="zähler", key=(text("k"),), value=(text("n"),), encoder=encoder, **ids
    )
    assert by_user.user_key == (text("u"),)


def test_the_state_variables_of_a_real_query_are_told() -> None:
    found = parse_state_schema((STATE_VARIABLES / "state_schema-4.3.0").read_bytes())

    columns = {
        family.name: [field.name for field in (*family.key, *family.value)]
        for family in found.families
    }
    assert columns == {
        "$procTimers_keyToTimestamp": ["key", "expiryTimestampMs", "__dummy__"],
        "$procTimers_timestampToKey": ["expiryTimestampMs", "key", "__dummy__"],
        "$rowCounter_ls": ["id", "count"],
        "$ttl_mp": ["expirationMs", "elementKey", "__empty__"],
        "ls": ["id", "x"],
        "mp": ["key", "userKey", "value", "ttlExpirationMs"],
        "zähler": ["id", "n"],
    }


def test_a_column_keeps_what_spark_noted_with_it() -> None:
    window = (
        '{"type":"struct","fields":[{"name":"window","type":{"type":"struct","fields":[]},'
        '"nullable":false,"metadata":{"spark.timeWindow":true,"spark.watermarkDelayMs":60000}}]}'
    )

    (family,) = parse_state_schema(utf("v1") + utf(window) + utf(struct())).families

    assert family.key == (
        Field(
            name="window",
            type={"type": "struct", "fields": []},
            nullable=False,
            metadata={"spark.timeWindow": True, "spark.watermarkDelayMs": 60000},
        ),
    )


GOOD = utf("v2") + chunks(struct("k")) + chunks(struct("v"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "is cut off after 0 bytes", id="empty"),
        pytest.param(GOOD[:-1], "is cut off", id="cut off"),
        pytest.param(GOOD + b"\0", "1 bytes after its end", id="a byte too many"),
        pytest.param(utf("v4"), "of version 'v4'; this release reads v1 to v3", id="later"),
        pytest.param(b"v2\n{}", "is cut off", id="text"),
        pytest.param(utf("v2") + b"\x7f\xff\xff\xff", "has no room", id="two billion chunks"),
        pytest.param(utf("v2") + b"\xff\xff\xff\xff", "counts -1 parts", id="less than none"),
        pytest.param(utf("v3") + b"\0\0\0\2" + b"\0", "has no room", id="families to come"),
        pytest.param(utf("v1") + b"\0\1\xff", "not Java's modified UTF-8", id="no text"),
        pytest.param(utf("v1") + utf("\ud800"), "not Java's modified UTF-8", id="half a character"),
        pytest.param(utf("v1") + utf("{}") * 2, "not a struct", id="no columns"),
        pytest.param(utf("v1") + utf('{"type":"struct"}') * 2, "fields is a", id="no list"),
        pytest.param(utf("v1") + utf(struct(fields=[1])) * 2, "A column is a int", id="a number"),
        pytest.param(
            utf("v1") + utf(struct(fields=[{"name": "a", "type": "long"}])) * 2,
            "does not tell nulls",
            id="nothing of nulls",
        ),
        pytest.param(b"\0" * (MAX_SCHEMA_BYTES + 1), "is larger than", id="too large"),
    ],
)
def test_a_schema_that_is_none_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(RecordError, match=why):
        parse_state_schema(data)
