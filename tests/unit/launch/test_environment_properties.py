from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_streaming.exceptions import RuntimeNotFound, SpecError
from airflow_streaming.launch.environment import guarded, properties_text, spark_defaults
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.spark.conf import check_conf_key
from tests.conf_keys import ODD_KEYS, read_properties


def make_runtime(spark_home: Path) -> Runtime:
    return Runtime(
        name="spark-4.3",
        spark_home=spark_home,
        python=Path("/usr/bin/python3"),
        java_home=None,
        spark_version="4.3.0",
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param(True, "true", id="boolean"),
        pytest.param(7, "7", id="number"),
        pytest.param("", "", id="empty"),
        pytest.param("a b", "a b", id="blank_inside"),
        pytest.param("  a", "\\ \\ a", id="leading_blanks"),
        pytest.param("C:\\dir", "C\\:\\\\dir", id="backslash"),
        pytest.param("a\nb\r\tc\f", "a\\nb\\r\\tc\\f", id="line_ends"),
        pytest.param("k=v#c!d", "k\\=v\\#c\\!d", id="separators"),
        pytest.param("é€", "\\u00e9\\u20ac", id="not_ascii"),
        pytest.param("🚀", "\\ud83d\\ude80", id="beyond_16_bits"),
        pytest.param("\x01\x7f", "\\u0001\\u007f", id="control_characters"),
    ],
)
def test_a_value_is_written_so_that_java_reads_it_back(value: object, written: str) -> None:
    assert properties_text({"spark.x": value}) == f"spark.x={written}\n"


def test_a_key_is_written_so_that_java_reads_it_back() -> None:
    assert properties_text({"spark.a b:c=d": "x"}) == "spark.a\\ b\\:c\\=d=x\n"


@pytest.mark.parametrize("key", ODD_KEYS)
def test_every_key_that_a_stream_may_have_is_read_back_by_java(key: str) -> None:
    assert check_conf_key(key) == key
    assert read_properties(properties_text({key: "a=b: c", "spark.z": "1"})) == {
        key: "a=b: c",
        "spark.z": "1",
    }


@settings(max_examples=300, deadline=None, database=None)
@given(st.text(max_size=12), st.text(max_size=12))
def test_a_key_is_refused_or_read_back_by_java(end: str, value: str) -> None:
    key = f"spark.{end}"
    try:
        check_conf_key(key)
    except SpecError:
        return

    assert read_properties(properties_text({key: value})) == {key: value}
    # As KEY=VALUE on a command line.
    assert f"{key}={value}".partition("=") == (key, "=", value)


def test_spark_shows_none_of_what_we_know_to_be_secret_unless_the_user_says_otherwise() -> None:
    key = "spark.redaction.regex"

    assert guarded({"spark.a": "1"})["spark.a"] == "1"
    pattern = re.compile(guarded({})[key])
    assert pattern.search("spark.redis.auth")
    assert pattern.search("SPARK.ES.NET.HTTP.AUTH.PASS")
    assert not pattern.search("spark.sql.shuffle.partitions")
    assert pattern.search("postgresql://app:canary-4711@db.example.com/orders")
    assert not pattern.search("s3://bucket/streams")
    assert guarded({key: "mine"})[key] == "mine"
    assert key not in guarded({}, defaults=f"# site\n{key}  theirs\n")
    assert key in guarded({}, defaults=f"# {key} was theirs\n")


def test_keys_are_sorted() -> None:
    assert properties_text({"spark.b": 2, "spark.a": 1}) == "spark.a=1\nspark.b=2\n"


def test_the_defaults_come_first_so_that_the_stream_wins() -> None:
    text = properties_text({"spark.x": "stream"}, "# site\nspark.x default")

    assert text == "# site\nspark.x default\n\nspark.x=stream\n"


@pytest.mark.parametrize("last", ["spark.y=a\\", "spark.y=a\\\n"], ids=["no_line_end", "line_end"])
def test_a_default_that_asks_for_a_continuation_does_not_swallow_the_stream(last: str) -> None:
    lines = properties_text({"spark.x": 1}, last).splitlines()

    assert (lines[0], lines[-1]) == ("spark.y=a\\", "spark.x=1")
    assert set(lines[1:-1]) == {""}


def test_nothing_to_write_is_an_empty_file() -> None:
    assert properties_text({}) == ""


def test_the_defaults_are_those_spark_submit_would_read(tmp_path: Path) -> None:
    for folder in ("conf", "site"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "spark-defaults.conf").write_text(f"spark.from {folder}\n")
    runtime = make_runtime(tmp_path)

    assert spark_defaults(runtime, {}) == "spark.from conf\n"
    assert spark_defaults(runtime, {"SPARK_CONF_DIR": f"{tmp_path}/site"}) == "spark.from site\n"


def test_no_defaults_are_no_error(tmp_path: Path) -> None:
    assert spark_defaults(make_runtime(tmp_path), {}) == ""


def test_defaults_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / "conf" / "spark-defaults.conf").mkdir(parents=True)

    with pytest.raises(
        RuntimeNotFound, match=r"'spark-4\.3' has defaults in .* that cannot be read: Is a dir"
    ):
        spark_defaults(make_runtime(tmp_path), {})
