from __future__ import annotations

from airflow_streaming.driver.monitoring.spark_query import SparkQuery
from airflow_streaming.model.spark.failure_signs import FailureKind


class Named:
    """A Java class."""

    def __init__(self, name: str) -> None:
        self._name = name

    def getSimpleName(self) -> str:  # Java's names, here and below
        return self._name

    def toString(self) -> str:
        return self._name


class JavaError:
    """A Java exception and its cause."""

    def __init__(self, name: str, message: str, cause: JavaError | None = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getMessage(self) -> str:
        return self._message

    def toString(self) -> str:
        return f"{self._name}: {self._message}"

    def getClass(self) -> Named:
        return Named(self._name)

    def getCause(self) -> JavaError | None:
        return self._cause

    def getStackTrace(self) -> list[Named]:
        return [Named("java.io.DataInputStream.readUTF"), Named("a.HDFSMetadataLog.get")]

    def getCondition(self) -> str:
        return "STREAM_FAILED"


class Found:
    """A Scala option."""

    def __init__(self, error: JavaError) -> None:
        self._error = error

    def isDefined(self) -> bool:
        return True

    def get(self) -> JavaError:
        return self._error


class JavaQuery:
    def __init__(self, error: JavaError) -> None:
        self._error = error

    def exception(self) -> Found:
        return Found(self._error)


def test_the_frames_of_the_innermost_cause_tell_what_its_message_does_not() -> None:
    torn = JavaError("EOFException", "null")
    failed = JavaError("StreamingQueryException", "[STREAM_FAILED] null", torn)

    error = SparkQuery(JavaQuery(failed)).error()

    assert error is not None
    assert (error.exception_class, error.condition) == ("EOFException", "STREAM_FAILED")
    assert error.diagnosis is not None
    assert error.diagnosis.kind is FailureKind.CHECKPOINT_DAMAGED
    assert error.core == "EOFException: null"


def test_a_chain_of_causes_without_an_end_is_followed_for_a_while() -> None:
    endless = JavaError("A", "a")
    endless._cause = endless

    error = SparkQuery(JavaQuery(endless)).error()

    assert error is not None
    assert error.exception_class == "A"
