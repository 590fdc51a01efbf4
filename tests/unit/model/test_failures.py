from __future__ import annotations

import json
import re
import time
from urllib.parse import quote, quote_plus

import pytest

from airflow_streaming.model.spark.failures import (
    MAX_TEXT,
    conditions_in,
    core_of,
    first_line,
    hide,
    mask_secrets,
    presentable,
    python_error_in,
    speech_of,
)
from airflow_streaming.model.spark.secret_conf import redact, secret_values
from airflow_streaming.model.spark.secrets import (
    SPARK_REDACTION,
    mask_uri,
)

FOREACH_BATCH = """\
[STREAM_FAILED] Query [id = 4bf1, runId = 8e3f] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach \
batch sink. Reason: An exception was raised by the Python Proxy. Return Message: \
Traceback (most recent call last):
  File "utils.py", line 166, in call
    raise e
  File "orders.py", line 8, in write
    rows[0]
    ~~~~^^^
pyspark.errors.exceptions.captured.SparkRuntimeException: \
[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred. SQLSTATE: P0001
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: q [id = 4bf1, runId = 8e3f]
"""


def test_the_innermost_condition_comes_last() -> None:
    assert conditions_in(FOREACH_BATCH) == (
        "STREAM_FAILED",
        "FOREACH_BATCH_USER_FUNCTION_ERROR",
        "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED",
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("[id = 1, runId = 2] [INFO] [42K09] [lower_case]", id="other brackets"),
    ],
)
def test_brackets_that_are_no_conditions_are_left_alone(text: str) -> None:
    assert conditions_in(text) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            FOREACH_BATCH,
            (
                "SparkRuntimeException",
                "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred. SQLSTATE: P0001",
            ),
            id="inside Spark's message",
        ),
        pytest.param(
            "Traceback (most recent call last):\n  File\nKeyError: 'a'\n\nDuring handling:\n"
            "Traceback (most recent call last):\n  File\nValueError: b\n",
            ("ValueError", "b"),
            id="the last of a chain",
        ),
        pytest.param(
            "Traceback (most recent call last):\n  File\nKeyboardInterrupt\n",
            ("KeyboardInterrupt", ""),
            id="without a message",
        ),
        pytest.param("java.lang.NullPointerException", None, id="no traceback"),
        pytest.param("Traceback (most recent call last):\n  File", None, id="cut short"),
        pytest.param("Traceback (most recent call last):\n???", None, id="garbled"),
    ],
)
def test_the_python_error_is_found(text: str, expected: tuple[str, str] | None) -> None:
    assert python_error_in(text) == expected


def test_the_first_line_is_said_without_sparks_wrapper() -> None:
    text = "[STREAM_FAILED] Query [id = 1] terminated with exception: \n\n  Job aborted.\nat X"
    assert first_line(text) == "Job aborted."
    assert first_line("  ") == ""


def test_the_first_line_of_a_java_error_is_said_without_py4js_wrapper() -> None:
    text = "An error occurred while calling o116.start.\n: java.io.IOException: gone\n\tat X"
    assert first_line(text) == "java.io.IOException: gone"


def test_frames_quoted_source_and_plans_are_not_what_an_error_says() -> None:
    text = "ValueError: a\n\tat b.C.d(C:1)\n    raise e\n\nCaused by: c\n" + (
        "=== Streaming Query ===\nIdentifier: q\nLogical Plan:\n+- Filter d\n\nCaused by: e\n"
    )
    assert speech_of(text) == "ValueError: a\nCaused by: c\nCaused by: e"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("\n[X_Y] a\n\tat b", "[X_Y] a", id="one message"),
        pytest.param("a\nCaused by: b\n\tat x\nCaused by: c\n\tat y", "c", id="Java causes"),
        pytest.param(
            FOREACH_BATCH,
            "SparkRuntimeException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred. "
            "SQLSTATE: P0001",
            id="a Python error inside",
        ),
        pytest.param(
            "Traceback (most recent call last):\n  File\npy4j.protocol.Py4JJavaError: o1.save.\n"
            ": java.lang.A: b\n\tat x\nCaused by: java.lang.C: d",
            "java.lang.C: d",
            id="a Java error inside the Python one",
        ),
        pytest.param(
            "Caused by: a.PythonException: Traceback (most recent call last):\n  File\nKeyError: 1",
            "KeyError: 1",
            id="a Python error inside the Java one",
        ),
        pytest.param("", "", id="nothing"),
    ],
)
def test_the_core_of_an_error_is_its_innermost_cause(text: str, expected: str) -> None:
    assert core_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("password=abc rest", "password=(redacted) rest", id="equals"),
        pytest.param('{"fs.s3a.secret.key": "x"}', '{"fs.s3a.secret.key": (redacted)}', id="json"),
        pytest.param("password = 'a b' c", "password = (redacted) c", id="a blank in quotes"),
        pytest.param("Authorization: Bearer abc x", "Authorization: (redacted) x", id="a header"),
        pytest.param(
            "authorization=Basic YTpi, x", "authorization=(redacted) x", id="another header"
        ),
        pytest.param("Authorization: Splunk abc x", "Authorization: (redacted) x", id="a scheme"),
        pytest.param("sent Bearer abcdefgh12 x", "sent Bearer (redacted) x", id="a header's value"),
        pytest.param('.option("password", "a b")', '.option("password", (redacted))', id="a call"),
        pytest.param("OPTIONS (password 'x')", "OPTIONS (password (redacted))", id="SQL"),
        pytest.param("Map(password -> x, a", "Map(password -> (redacted) a", id="a map of Scala"),
        pytest.param("password => x y", "password => (redacted) y", id="an arrow"),
        pytest.param("run --db-password x y", "run --db-password (redacted) y", id="an argument"),
        pytest.param(r'password="a\"b" c', "password=(redacted) c", id="a quote in quotes"),
        pytest.param(f"it said ghp_{'a' * 36} x", "it said (redacted) x", id="a token by its form"),
        pytest.param("--token-file --other x", "--token-file --other x", id="an argument alone"),
        pytest.param("api-token-value: x y", "api-token-value: (redacted) y", id="hyphens"),
        pytest.param("Bearer: abc x", "Bearer: (redacted) x", id="a header's word as a name"),
        pytest.param("jdbc://me:p@w@db/x", "jdbc://me:(redacted)@db/x", id="an @ in a password"),
        pytest.param("ACCESS-KEY : AKIA", "ACCESS-KEY : (redacted)", id="upper case, spaces"),
        pytest.param("apiToken:abc", "apiToken:(redacted)", id="inside a word"),
        pytest.param("jdbc://me:pw@db/x", "jdbc://me:(redacted)@db/x", id="user info of a URL"),
        pytest.param("no tokens here", "no tokens here", id="a word alone"),
        pytest.param(
            "see https://abc@h/x", "see https://(redacted)@h/x", id="a token for a web user"
        ),
        pytest.param("abfss://box@a.dfs/x", "abfss://box@a.dfs/x", id="a container"),
        pytest.param("ssh://git@h/x", "ssh://git@h/x", id="a user of another scheme"),
        pytest.param("read tokens=15, x", "read tokens=15, x", id="how many tokens"),
        pytest.param("max_tokens: 4096 x", "max_tokens: 4096 x", id="a limit of tokens"),
        pytest.param("tokens=15;password=x y", "tokens=(redacted) y", id="more than a number"),
        pytest.param("token=15 x", "token=(redacted) x", id="a token of digits"),
        pytest.param("Unexpected token: at", "Unexpected token: at", id="what a parser says"),
        pytest.param("invalid token: at", "invalid token: (redacted)", id="what a server says"),
        pytest.param(
            "fs.s3a.aws.credentials.provider=org.apache.A, x",
            "fs.s3a.aws.credentials.provider=org.apache.A, x",
            id="the class that has the credentials",
        ),
        pytest.param(
            "credentials.provider=hunter2 x",
            "credentials.provider=(redacted) x",
            id="no class in its place",
        ),
    ],
)
def test_what_follows_a_secret_looking_name_is_masked(text: str, expected: str) -> None:
    assert mask_secrets(text) == expected


_FORMS: list[str] = [
    *("ghr_" + "a" * 36, "glpat-" + "aB3-" * 6, "glsa_" + "a" * 32, "xapp-1-" + "A" * 20),
    *("ASIA" + "A" * 16, "AIza" + "b" * 35, "ya29." + "c" * 40, "GOCSPX-" + "d" * 28),
    *("hvs." + "e" * 24, "dapi" + "0f" * 16, "hf_" + "g" * 34, "npm_" + "h" * 36),
    *("pypi-AgE" + "i" * 60, "dckr_pat_" + "j" * 27, "dop_v1_" + "0a" * 32, "sk_live_" + "k" * 24),
    *("sk-proj-1" + "l" * 40, "sk-ant-api03-" + "m" * 40, f"SG.{'n' * 22}.{'o' * 43}"),
    *("shpat_" + "0b" * 16, "ATATT3" + "p" * 40, "Q" * 86 + "==", "AKIA" + "A" * 16),
]


@pytest.mark.parametrize("token", _FORMS)
def test_a_token_is_known_by_its_own_form_wherever_it_stands(token: str) -> None:
    assert mask_secrets(f"it said {token} x") == "it said (redacted) x"
    assert token not in mask_uri(f"https://h/a.jar?k={token}")
    assert redact({"spark.my.value": token}) == {"spark.my.value": "(redacted)"}
    assert redact({"spark.my.value": f"-Dk={token}"}) == {"spark.my.value": "(redacted)"}
    assert token in secret_values({"k": f"a {token}"})
    assert re.search(SPARK_REDACTION, token)


@pytest.mark.parametrize(
    "word", ["sk-learn-something-rather-long", "risk-based-approach-of-2026", "a" * 90, "glue-job"]
)
def test_a_word_is_no_token(word: str) -> None:
    assert mask_secrets(f"it said {word} x") == f"it said {word} x"
    assert redact({"spark.my.value": word}) == {"spark.my.value": word}


def test_the_class_that_has_the_credentials_is_shown() -> None:
    name = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    key = "spark.hadoop.fs.s3a.aws.credentials.provider"
    assert redact({key: f"{name}, a.B"}) == {key: f"{name}, a.B"}
    assert redact({key: "hunter2"}) == {key: "(redacted)"}
    assert redact({"spark.my.password": "a.B"}) == {"spark.my.password": "(redacted)"}


@pytest.mark.parametrize(
    "part",
    [
        "-",
        "--a",
        "://a:",
        "token",
        "sk-",
        "eyJ",
        "https://a",
        "Unexpected token ",
        "A" * 86,
        "--password ",
        "bearer ",
        "'password=",
        "jdbc:oracle:thin:a/",
        " user:pw",
        " a:b@",
        "dsn=",
        "connection",
    ],
)
def test_masking_takes_time_in_proportion_to_the_text(part: str) -> None:
    def seconds(length: int) -> float:
        text, began = (part * length)[:length], time.process_time()
        mask_secrets(text)
        secret_values({"k": text})
        return time.process_time() - began

    # Twenty times the text; quadratic work would take four hundred times as long.
    assert seconds(40_000) < 100 * max(seconds(2_000), 0.004)


def test_a_text_is_cut_and_masked_before_it_is_kept() -> None:
    kept = presentable("token=canary " + "x" * 10 * MAX_TEXT)
    assert len(kept) == MAX_TEXT
    assert kept.startswith("token=(redacted) x")
    assert kept.endswith("…")


@pytest.mark.parametrize(
    ("conf", "hidden"),
    [
        pytest.param({"spark.redis.auth": "canary"}, {"canary"}, id="of_a_secret_key"),
        pytest.param({"DB_PASS": " a\nlonger one\n"}, {"longer one"}, id="every_line"),
        pytest.param({"x": "-Da.pass=canary -Db=c"}, {"canary"}, id="an_option"),
        pytest.param({"x": "jdbc:a://h;user=u;pwd=canary;b=c"}, {"canary"}, id="a_jdbc_url"),
        pytest.param({"x": "s3://me:canary@host/x"}, {"canary"}, id="user_info"),
        pytest.param({"PWD": "/home/canary", "OLDPWD": "/canary"}, set(), id="working_folder"),
        pytest.param({"x.password.file": "/canary"}, set(), id="a_place"),
        pytest.param({"x.token.ttl": "864000", "x.secret.on": "false"}, set(), id="words"),
        pytest.param(
            {"a.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"},
            set(),
            id="a_class",
        ),
        pytest.param({"x": "jdbc:oracle:thin:me/canary@//h:1/s"}, {"canary"}, id="of_oracle"),
        pytest.param({"x": "me:canary@host:5432"}, {"canary"}, id="without_a_scheme"),
        pytest.param({"x.dsn": "canary"}, {"canary"}, id="a_dsn"),
        pytest.param({"HARMLESS": "canary"}, set(), id="harmless"),
    ],
)
def test_what_is_hidden_of_a_configuration(conf: dict[str, str], hidden: set[str]) -> None:
    assert {value for value in secret_values(conf) if "\n" not in value} == hidden


def test_every_variable_that_the_stream_gave_is_hidden() -> None:
    assert secret_values({"HARMLESS": "canary", "TZ": "UTC"}, all_of=("HARMLESS", "TZ")) == {
        "canary"
    }


def test_a_known_secret_is_masked_however_it_is_quoted_and_wherever_a_text_is_cut() -> None:
    secret = 'a"b\\c d/é'
    hide([secret, "canary"])

    for quoted in (secret, json.dumps(secret), repr(secret), quote_plus(secret), quote(secret)):
        assert presentable(f"not {quoted}.").replace('"', "").replace("'", "") == (
            "not (redacted)."
        )
    assert "cana" not in presentable("x" * 3_997 + "canary")
    assert "cana" not in presentable("password=" + "x" * 3_900 + " canary" * 1000)
