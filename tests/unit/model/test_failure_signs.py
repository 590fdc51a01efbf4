from __future__ import annotations

import re
import time
from collections import Counter

import pytest

import tests.corpus.checkpoints
import tests.corpus.outside
import tests.corpus.setup
import tests.corpus.user_code  # noqa: F401  # the four enter their scenarios
from airflow_streaming.model.spark.failure_signs import WEIGHTS, FailureKind
from airflow_streaming.model.spark.failures import diagnose, signature
from tests.corpus.fixtures import Fixture, read_fixtures
from tests.corpus.handwritten import HANDWRITTEN
from tests.corpus.stage import SCENARIOS

FIXTURES = list(read_fixtures())

TOLD_AS = {
    # The logs disagree, or another writer is ahead: Spark says the latter.
    "offsets_behind_commits": FailureKind.SECOND_WRITER,
    "offsets_gone": FailureKind.SECOND_WRITER,
    # State was deleted, or the query had no such state before: one message, whose remedy names
    # both.
    "state_added_to_stateless": FailureKind.CHECKPOINT_DAMAGED,
    "dedup_added_before_aggregate": FailureKind.CHECKPOINT_DAMAGED,
    "shuffle_partitions_changed_in_offsets": FailureKind.CHECKPOINT_DAMAGED,
    # Spark 4.1 meets a null on its way through a batch function, and says nothing of its end.
    "context_stopped": FailureKind.USER_CODE,
}
"""Scenarios whose message is, in some version, word for word that of another kind of failure."""


@pytest.fixture(scope="module")
def kinds() -> dict[str, FailureKind]:
    """What every real failure is diagnosed as, by the name of its fixture."""
    return {
        f.id: diagnose(text=f.text, exception_class=f.exception_class, conditions=f.conditions).kind
        for f in FIXTURES
    }


def signature_of(fixture: Fixture, text: str) -> str:
    return signature(
        kind=fixture.expected,
        query="q",
        exception_class=fixture.exception_class,
        condition=fixture.condition,
        text=text,
    )


def test_a_real_failure_is_diagnosed(kinds: dict[str, FailureKind]) -> None:
    wrong = {
        f.id: kinds[f.id]
        for f in FIXTURES
        if kinds[f.id] not in (f.expected, TOLD_AS.get(f.scenario))
    }

    assert wrong == {}


def test_a_real_failure_that_needs_a_person_is_never_restarted(
    kinds: dict[str, FailureKind],
) -> None:
    final = {f.id for f in FIXTURES if f.expected.needs_a_person}

    assert {n for n in final if not kinds[n].needs_a_person} == set()


def after_a_restart(text: str) -> str:
    """Return the message of the next attempt: other ids, figures, folders and hosts."""
    other_ids = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "0" * 8 + "-aaaa" * 3 + "-" + "b" * 12, text)
    later = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), other_ids)
    return later.replace("/data/stage", "/mnt/elsewhere").replace("host-1", "worker.example.com")


def test_a_real_failure_is_the_same_after_a_restart() -> None:
    other = [
        f.id
        for f in FIXTURES
        if signature_of(f, after_a_restart(f.text)) != signature_of(f, f.text)
    ]

    assert other == []


def test_what_a_fixture_is_called_was_decided_in_the_table() -> None:
    assert [f.id for f in FIXTURES if f.expected is not SCENARIOS[f.scenario].expected] == []


def test_the_right_action_is_found_nearly_always(kinds: dict[str, FailureKind]) -> None:
    right = sum(kinds[f.id].restart_class is f.expected.restart_class for f in FIXTURES)

    assert right >= 0.98 * len(FIXTURES)


def test_the_corpus_is_large_enough_to_tell() -> None:
    versions = Counter(fixture.spark.rpartition(".")[0] for fixture in FIXTURES)

    assert len({fixture.scenario for fixture in FIXTURES}) >= 40
    assert set(versions) == {"3.5", "4.1", "4.3"}
    assert min(versions.values()) >= 40


def test_the_corpus_holds_every_kind_that_a_message_can_tell() -> None:
    told = {fixture.expected for fixture in FIXTURES}
    not_by_message = {
        *(FailureKind.POISON_BATCH, FailureKind.UNHEALTHY, FailureKind.UNKNOWN),
        FailureKind.UNREACHABLE,
        FailureKind.SCHEMA_CHANGED,  # needs Delta or Avro; among the handwritten ones
    }

    assert told == set(FailureKind) - not_by_message


def test_the_corpus_names_nobodys_machine() -> None:
    for fixture in FIXTURES:
        assert not re.search(r"/(?:root|home|tmp|work)/", fixture.text), fixture.id
        assert len(fixture.text) < 8_100, fixture.id


@pytest.mark.parametrize(
    ("expected", "text"), [pytest.param(*told, id=name) for name, told in HANDWRITTEN.items()]
)
def test_a_failure_that_could_not_be_provoked_is_diagnosed(
    expected: FailureKind, text: str
) -> None:
    assert diagnose(text=text).kind is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", FailureKind.UNKNOWN, id="nothing"),
        pytest.param("Something went wrong.", FailureKind.UNKNOWN, id="nothing that is known"),
        pytest.param(
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] x\nCaused by: java.io.EOFException",
            FailureKind.CHECKPOINT_DAMAGED,
            id="the wrapper tells more than its cause",
        ),
        pytest.param(
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] x\nCaused by: java.net.ConnectException",
            FailureKind.TRANSIENT,
            id="the cause tells more than its wrapper",
        ),
        pytest.param(
            "Traceback (most recent call last):\n"
            '  File "a.py", line 1, in f\n    raise OSError("Connection refused")\n'
            "ValueError: 3",
            FailureKind.USER_CODE,
            id="quoted source does not count",
        ),
        pytest.param(
            "ValueError: 3\n=== Streaming Query ===\nLogical Plan:\nFilter (s = Connection refused)",
            FailureKind.UNKNOWN,
            id="the plan does not count",
        ),
        pytest.param(
            "com.fasterxml.jackson.core.JsonParseException: Unexpected character\n\tat a.B.c(B:1)",
            FailureKind.UNKNOWN,
            id="a parser that reads no checkpoint",
        ),
    ],
)
def test_only_what_the_error_itself_says_counts(text: str, expected: FailureKind) -> None:
    assert diagnose(text=text).kind is expected


def test_class_and_conditions_count_where_the_text_is_short() -> None:
    by_class = diagnose(text="It failed.", exception_class="OutOfMemoryError")
    by_condition = diagnose(text="It failed.", conditions=("CONCURRENT_STREAM_LOG_UPDATE",))

    assert (by_class.kind, by_class.evidence) == (FailureKind.OUT_OF_MEMORY, "OutOfMemoryError")
    assert by_condition.kind is FailureKind.SECOND_WRITER
    assert by_condition.evidence == "CONCURRENT_STREAM_LOG_UPDATE"


def test_a_remedy_of_its_own_comes_before_that_of_the_kind() -> None:
    lost = diagnose(text="[KAFKA_DATA_LOSS.OFFSET_RESET] x")

    assert "failOnDataLoss" in lost.remedy
    assert lost.remedy != FailureKind.INCOMPATIBLE.remedy


@pytest.mark.parametrize("name", [name for name in HANDWRITTEN if "no broker answers" in name])
def test_a_broker_without_an_answer_has_the_remedy_of_the_protocol(name: str) -> None:
    _, text = HANDWRITTEN[name]

    assert "kafka.security.protocol" in diagnose(text=text).remedy


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param("", id="of-a-query"),
        pytest.param("\nCaused by: java.net.SocketTimeoutException: Accept timed out", id="cause"),
    ],
)
def test_a_python_worker_that_does_not_connect_is_no_service_that_is_away(cause: str) -> None:
    found = diagnose(
        text=f"org.apache.spark.SparkException: Python worker failed to connect back.{cause}"
    )

    assert found.kind is FailureKind.TRANSIENT
    assert "10 s" in found.remedy


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_has_a_remedy_in_sentences(kind: FailureKind) -> None:
    assert re.fullmatch(r"[A-Z].*\.", kind.remedy)


def test_no_phrase_tells_two_kinds() -> None:
    free = [sign for signs in WEIGHTS for sign in signs if not sign.only_with]
    told = Counter(phrase for sign in free for phrase in sign.phrases)

    assert [phrase for phrase, times in told.items() if times > 1] == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x" * 1_000_000, id="one word"),
        pytest.param("[A" * 500_000, id="brackets"),
        pytest.param("Caused by: " * 90_000, id="causes in one line"),
        pytest.param("Caused by: a\n" * 80_000, id="causes in lines"),
        pytest.param("Traceback (most recent call last):\n" * 28_000, id="tracebacks"),
        pytest.param("a-f0" * 250_000, id="hex"),
        pytest.param("a:/" * 333_000, id="addresses"),
        pytest.param("1.2:3," * 166_000, id="numbers"),
    ],
)
def test_a_text_of_a_megabyte_takes_no_time(text: str) -> None:
    begun = time.process_time()
    found = diagnose(text=text)
    signature(kind=found.kind, query="q", exception_class="E", condition=None, text=text)

    assert time.process_time() - begun < 2


def a_signature(text: str, **changes: str | None) -> str:
    values: dict[str, str | None] = {"query": "q", "exception_class": "E", "condition": None}
    return signature(kind=FailureKind.USER_CODE, text=text, **(values | changes))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            "Error reading delta file s3a://b/c/state/0/1/7.delta of store(id = (op=0,part=1))",
            "Error reading delta file file:/mnt/c/state/0/3/912.delta of store(id = (op=0,part=3))",
            id="paths and partitions",
        ),
        pytest.param(
            "Lost task 0.0 in stage 1.0 (TID 2) (10.0.0.7 executor 3): java.lang.Exception: x",
            "Lost task 1.3 in stage 88.0 (TID 712) (w-4.example.com executor driver): "
            "java.lang.Exception: x",
            id="tasks and hosts",
        ),
        pytest.param("at 2026-01-02T03:04:05.678Z", "at 2027-11-12T13:14:15.1Z", id="times"),
        pytest.param(
            "run 0efb0f1d-4216-4261-b121-87314d51a827",
            "run ffff0f1d-aaaa-4261-b121-87314d51abcd",
            id="ids",
        ),
        pytest.param("object a.B@1f2e3d", "object a.B@77", id="Java objects"),
        pytest.param("ValueError: line 9  of x", "ValueError: line 10 of x", id="numbers, spaces"),
        pytest.param("no broker at kafka-1:9092", "no broker at kafka-2.example:9093", id="ports"),
    ],
)
def test_what_differs_between_attempts_does_not_tell_failures_apart(one: str, other: str) -> None:
    assert a_signature(one) == a_signature(other)


def test_what_the_error_says_tells_failures_apart() -> None:
    same = a_signature("KeyError: 'price'")

    assert re.fullmatch(r"[0-9a-f]{16}", same)
    assert same != a_signature("KeyError: 'amount'")
    assert same != a_signature("KeyError: 'price'", query="other")
    assert same != a_signature("KeyError: 'price'", exception_class="IndexError")
    assert same != a_signature("KeyError: 'price'", condition="STREAM_FAILED")


def test_the_innermost_cause_is_compared_and_not_the_way_to_it() -> None:
    one = "Job aborted: a\n\tat x\nCaused by: java.lang.Exception: b\n\tat y"
    other = "Stage failed: c\n\tat z\nCaused by: java.lang.Exception: b"

    assert a_signature(one) == a_signature(other)
