"""Secrets are known by the words of their names and by their shapes; everything else stays readable."""

from __future__ import annotations

import re
import time

import pytest

from airflow_streaming.model.spark.failures import mask_secrets
from airflow_streaming.model.spark.secret_conf import redact
from airflow_streaming.model.spark.secrets import (
    REDACTED,
    SECRET_NAME,
    is_secret,
    mask_text,
    words_of,
)
from tests.corpus import laid_out_secrets, later_secrets
from tests.corpus import secrets as corpus

HOSTILE = (
    *("-", "password=", "a=", "a: ", "x ", "token ", "'a', ", "key is ", '"', "://a:", "user:a@"),
    *("curl -u ", "value x for ", "Basic ", "{", "password={", "a.", "eyJ", "mysql -", "</name>"),
    *(
        "(a,",
        "| a |",
        "a%3D",
        "://a%3A",
        "a:123:b:c:",
        '"name":"a","value',
        "\x1b[1m",
        "a(",
        "?key=",
    ),
    *("a\n", "pass\n", "<a>", "<token>", "a: |\n ", "token: >\n ", "redis-cli -a ", "Digest a=b,"),
    *("az login ", "docker login -p", "vault login ", "\\", "token\\\\\\", "é="),
)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sharedKey", ("shared", "key")),
        ("SHARED_KEY", ("shared", "key")),
        ("X-API-Key", ("x", "api", "key")),
        ("trustStorePASSWORD", ("truststore", "password")),
        ("spark.ssl.keyStoreType", ("spark", "ssl", "keystore", "type")),
        ("oauth2.client", ("oauth", "client")),
        ("größe", ("gro", "ß", "e")),
        ("", ()),
    ],
)
def test_a_name_is_split_into_its_words(name: str, words: tuple[str, ...]) -> None:
    assert words_of(name) == words


@pytest.mark.parametrize("key", corpus.KEYS)
def test_a_secret_name_hides_its_value(key: str) -> None:
    assert redact({key: "plain-value"}) == {key: REDACTED}


@pytest.mark.parametrize("marked", corpus.VALUES)
def test_a_value_that_holds_a_secret_is_hidden_under_any_name(marked: str) -> None:
    assert is_secret(corpus.plain(marked))


@pytest.mark.parametrize("marked", [*corpus.VALUES, *corpus.TEXTS, *corpus.PHRASES])
def test_no_secret_of_a_text_is_left(marked: str) -> None:
    if marked in corpus.KNOWN_MISSES:
        pytest.skip("Known miss.")
    masked = mask_secrets(corpus.plain(marked))

    assert REDACTED in masked
    for secret in corpus.secrets_in(marked):
        assert secret not in masked
        assert len(secret) < 12 or secret[-10:] not in masked


@pytest.mark.parametrize(("key", "value"), corpus.PLAIN_KEYS)
def test_a_harmless_setting_stays_readable(key: str, value: str) -> None:
    assert redact({key: value}) == {key: value}


@pytest.mark.parametrize("text", corpus.PLAIN_TEXTS)
def test_a_harmless_text_stays_readable(text: str) -> None:
    assert mask_secrets(text) == text


@pytest.mark.parametrize("marked", [*corpus.VALUES, *corpus.TEXTS, *corpus.PHRASES])
def test_a_text_that_was_masked_stays_as_it_is(marked: str) -> None:
    once = mask_text(corpus.plain(marked))

    assert mask_text(once) == once


@pytest.mark.parametrize("part", HOSTILE)
def test_a_megabyte_takes_seconds_whatever_is_in_it(part: str) -> None:
    def seconds(length: int) -> float:
        text, began = (part * length)[:length], time.process_time()
        mask_text(text)
        return time.process_time() - began

    # Ten times the text; quadratic work would take a hundred times as long.
    assert seconds(100_000) < 40 * max(seconds(10_000), 0.002)


@pytest.mark.parametrize("key", corpus.KEYS)
def test_the_pattern_for_spark_has_the_same_names(key: str) -> None:
    assert re.search(SECRET_NAME, key) or key in {"sig", "signature", "spark.hadoop.my.store.key"}


@pytest.mark.parametrize("key", later_secrets.KEYS)
def test_a_secret_name_of_the_second_corpus_hides_its_value(key: str) -> None:
    assert redact({key: "plain-value"}) == {key: REDACTED}


@pytest.mark.parametrize("marked", [*later_secrets.TEXTS, *later_secrets.BROKEN])
def test_no_secret_of_the_second_corpus_is_left(marked: str) -> None:
    masked = mask_secrets(corpus.plain(marked))

    assert [one for one in re.findall("«([^»]+)»", marked) if one in masked] == []
    assert is_secret(corpus.plain(marked))


@pytest.mark.parametrize("marked", laid_out_secrets.TEXTS)
@pytest.mark.parametrize("front", ["", "12:00 INFO x: "])
def test_a_layout_hides_no_secret(marked: str, front: str) -> None:
    text = front + corpus.plain(marked)
    masked = mask_secrets(text)

    assert [one for one in re.findall("«([^»]+)»", marked) if one in masked] == []
    assert is_secret(text)
    assert mask_secrets(masked) == masked


@pytest.mark.parametrize("text", laid_out_secrets.PLAIN_TEXTS)
def test_a_plain_text_in_the_layout_of_a_secret_stays_readable(text: str) -> None:
    assert mask_secrets(text) == text
    assert not is_secret(text)


@pytest.mark.parametrize("text", later_secrets.PLAIN_TEXTS)
def test_a_plain_text_of_the_second_corpus_stays_readable(text: str) -> None:
    assert mask_secrets(text) == text


def test_each_line_of_a_text_in_yaml_is_hidden() -> None:
    text = "db:\n  password: |\n    first\n    second\n  user: kim\nlist:\n- note: |\n    plain\n"
    inner = "note: |\n  a: 1\n  token: >-\n    abc\n"

    masked = mask_text(text)

    assert masked == (
        f"db:\n  password: |\n    {REDACTED}\n  user: kim\nlist:\n- note: |\n    plain\n"
    )
    assert mask_text(inner) == f"note: |\n  a: 1\n  token: >-\n    {REDACTED}\n"
