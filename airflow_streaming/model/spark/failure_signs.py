"""
Kinds of failures, and the signs each is recognized by.

A kind is not a cause. It is the coarsest answer that still separates failures that a restart can
help from others, and shows on-call where to look first.

This is the only module that matches messages of Spark, Java and their clients.

Conditions are written with their opening bracket, so that ``[CANNOT_LOAD_STATE_STORE`` covers all
its sub-conditions. Sentences come from Spark 3.5, which names few conditions, and from libraries.
The failures behind the table are kept under ``tests/corpus``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

_IN_A_BATCH: Final = ("FOREACH_BATCH_USER_FUNCTION_ERROR", "raised by the Python Proxy")
# Frames of those who read the checkpoint's files.
_LOG_READERS: Final = (
    "HDFSMetadataLog", "OffsetSeqLog", "CommitLog", "FileStreamLog", "StreamMetadata",
    "StateSchema", "OperatorStateMetadata", "SchemaHelper",
    "populateStartOffsets", "initializeExecution",
)  # fmt: skip
# Frames of those who load state.
_STATE_LOADERS: Final = (
    "StateStoreProvider.loadMap", "StateStoreProvider.updateFrom", "state.RocksDB.load",
    "StateStoreChangelogReader", "RocksDBFileManager.load", "StateStoreProvider.getReadStore",
    "StateStoreProvider.getStore",
)  # fmt: skip
# The checkpoint is whole, but the data do not come back, and whether to continue without them is
# the user's choice: so it counts as not fitting the source, and not as transient.
_LOST_DATA: Final = (
    "The source no longer holds the data at the checkpoint's offsets. Find out which data "
    "was lost; then bring it back, or let the stream skip it (failOnDataLoss=false), or "
    "start with a new checkpoint."
)
_NO_STATE: Final = (
    "If the query kept state before, its files were deleted: restore the checkpoint from a backup. "
    "If the state is new in the script, give the changed query a new checkpoint."
)
_BATCH_NOT_READ: Final = (
    "The function of foreachBatch did not execute the whole batch, so its state is "
    "incomplete (checked by Spark 4.1 and newer). Let it write every batch that it receives, "
    "also one that it has written before: replace the rows of that batch id. Then start the "
    "stream again."
)
_OTHER_AVRO: Final = (
    "Records of the source were written with another Avro schema than the script names. Deploy the script with the new "
    "schema, or bring the writer back to the old one; the stream continues with the same batch."
)
_NO_EVOLUTION: Final = (
    "Columns of the Delta table were renamed, dropped or got another type. Give the source the option "
    "schemaTrackingLocation inside the checkpoint and allow this change as Delta's message says, or start with a new "
    "checkpoint."
)
_NO_NODE: Final = (
    "See that the addresses and ports of the brokers are right, and that kafka.security.protocol fits their listener: a "
    "client without TLS or a login gets no answer from a listener that wants it, and the other way round."
)
_NO_WORKER: Final = (
    "Spark waits 10 s for a new Python worker, and no setting changes it. On a host that was too busy the next start "
    "can succeed. If it fails too, give the driver's host more CPU, and read the worker's own error, e.g. of an "
    "import, in the driver's log."
)
_NO_JVM: Final = (
    "Spark's Java process did not start. Its own words are in the driver's log; look for a setting "
    "it refused, a missing Java, or too little memory."
)


class FailureClass(StrEnum):
    """Which restart budget a failure is charged to."""

    INFRASTRUCTURE = "infrastructure"
    """Machines, networks and memory: a restart usually helps."""
    APPLICATION = "application"
    """The user's code and data: a restart may help."""
    OUTAGE = "outage"
    """A system that the query needs is away: a restart helps once it is back."""
    FINAL = "final"
    """A restart can only fail the same way, or do harm."""


class FailureKind(StrEnum):
    """
    The kind of failure that ended a driver: one row for each.

    ``restart_class`` is the restart budget that it is charged to; ``remedy`` is one or two
    sentences with the next step. ``is_in_copy``: the failure is in the recorded copy of script and
    settings, so that another start of the same deployment fails in the same way.
    """

    restart_class: FailureClass
    remedy: str
    is_in_copy: bool

    def __new__(
        cls, name: str, restart_class: FailureClass, remedy: str, is_in_copy: bool = False
    ) -> Self:
        kind = str.__new__(cls, name)
        kind._value_, kind.restart_class, kind.remedy = name, restart_class, remedy
        kind.is_in_copy = is_in_copy
        return kind

    TRANSIENT = (
        "transient",
        FailureClass.INFRASTRUCTURE,
        (
            "Check that the storage, broker or service which the message names can be reached "
            "from the driver and its executors."
        ),
    )
    """Something beside the query was away: storage, a broker, a database, an executor."""
    UNREACHABLE = (
        "unreachable",
        FailureClass.OUTAGE,
        (
            "Check that the brokers run and that the address in the script is theirs. The stream is started again "
            "until the outage has lasted for the policy's max_outage."
        ),
    )
    """No broker of a source or sink accepts a connection: the driver has tried it itself."""
    USER_CODE = (
        "user_code",
        FailureClass.APPLICATION,
        ("Read the error in the driver's log, and correct the script or the row that it fails on."),
        True,
    )
    """The script's own code raised, or an expression of it did on a row."""
    SCHEMA_CHANGED = (
        "schema_changed",
        FailureClass.APPLICATION,
        (
            "The stream is started again, which is how a Delta source takes a new schema. Check that the script and "
            "the readers of its output take the new columns. If it fails again, the change is incompatible."
        ),
    )
    """The data of a source have another schema than the query was started with, and a restart may read it."""
    POISON_BATCH = (
        "poison_batch",
        FailureClass.FINAL,
        (
            "Correct the script so that it can process the batch, or set the offending rows "
            "aside at the source. The stream continues with the same batch."
        ),
        True,
    )
    """
    The same batch failed the same way again and again, so that it cannot pass as it is.

    No single message says so: ``diagnose`` never answers it. The restart policy does, when so many
    failures in a row have the same signature and batch.
    """
    CHECKPOINT_DAMAGED = (
        "checkpoint_damaged",
        FailureClass.FINAL,
        (
            "Do not start the stream again as it is. Restore the checkpoint from a backup, or "
            "start with a new checkpoint and decide from where to read."
        ),
    )
    """A file of the checkpoint is missing, torn or not what Spark wrote."""
    INCOMPATIBLE = (
        "incompatible",
        FailureClass.FINAL,
        (
            "Deploy the earlier script, settings or Spark version, with which the checkpoint "
            "was written; or give the changed query a new checkpoint."
        ),
        True,
    )
    """The checkpoint is whole, but does not fit the query, the Spark version or the source."""
    SINK_AHEAD = (
        "sink_ahead",
        FailureClass.FINAL,
        (
            "The sink has the planned batch and the checkpoint has no commit of it: Spark skips "
            "the batch and has no state for it. A file sink: start the stream again, which moves "
            "the batch out of the sink first; the timeline says why where it did not. With "
            "repair_sinks off, stop the stream and repair it by hand: airflow-streaming "
            "checkpoint repair STREAM. A function "
            "or a table that skips known batches: let it take the batch once more, or restore a "
            "backup."
        ),
    )
    """
    The sink skips a batch that it has, so the query has no state of that batch.

    It happens with state checkpoint format 2 alone, when the driver dies between the sink's write and
    the commit.
    """
    SOURCE_NOT_REPLAYABLE = (
        "source_not_replayable",
        FailureClass.FINAL,
        (
            "Read from a source that can be replayed: files, Kafka, a table. A socket sends only new "
            "lines to a new driver and counts them from 0. To keep the socket, start with a new "
            "checkpoint; the state of the old one and the lines of the interrupted batch are lost."
        ),
        True,
    )
    """The source cannot send again the rows that the planned batch names; a socket does that."""
    SECOND_WRITER = (
        "second_writer",
        FailureClass.FINAL,
        (
            "Find and stop the other query on this checkpoint, and give every query a "
            "checkpoint of its own. If no other query runs, the checkpoint's logs disagree: "
            "restore it from a backup."
        ),
    )
    """Another query writes the same checkpoint."""
    CONFIGURATION = (
        "configuration",
        FailureClass.FINAL,
        ("Correct the option, package, address, right or query that the message names."),
        True,
    )
    """The stream cannot run as it is set up: an option, a jar, an address, a right, the plan."""
    OUT_OF_MEMORY = (
        "out_of_memory",
        FailureClass.INFRASTRUCTURE,
        (
            "Give the driver or its executors more memory, or bound each batch with a rate "
            "limit and the state with a watermark."
        ),
    )
    """A heap, a container's limit or the host ran out of memory."""
    KILLED = (
        "killed",
        FailureClass.INFRASTRUCTURE,
        (
            "Look in the log of the host or the cluster for what ended the process; the most "
            "frequent reason is its memory limit."
        ),
    )
    """The driver, its JVM or a Python worker was killed from outside or crashed without a
    message."""
    UNHEALTHY = (
        "unhealthy",
        FailureClass.INFRASTRUCTURE,
        "Look at the verdict that stopped the driver; its rule and figures are in the reason.",
    )
    """The driver lived, and was stopped because of a health verdict."""
    UNKNOWN = (
        "unknown",
        FailureClass.APPLICATION,
        "Read the driver's log; this failure is not one the provider knows.",
    )
    """Nothing in the message is known."""

    @property
    def needs_a_person(self) -> bool:
        """Tell whether the same start can only fail the same way, or do more harm."""
        return self.restart_class is FailureClass.FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """
    The diagnosis of a failure's message.

    :param evidence: The condition, class or phrase that was recognized; empty without one.
    """

    kind: FailureKind
    evidence: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """
    Phrases that identify a kind.

    :param only_with: It counts only if one of these is anywhere in the text, stack frames included.
    :param never_with: It does not count if one of these is.
    :param remedy: The next step where the kind's own remedy would mislead.
    """

    kind: FailureKind
    phrases: tuple[str, ...]
    only_with: tuple[str, ...] = ()
    never_with: tuple[str, ...] = ()
    remedy: str | None = None

    def counts_in(self, text: str) -> bool:
        if any(phrase in text for phrase in self.never_with):
            return False
        return not self.only_with or any(phrase in text for phrase in self.only_with)


_DECISIVE: Final = (
    # The word of py4j, whose connection to the JVM breaks like any other.
    Sign(
        kind=FailureKind.KILLED,
        phrases=("ConnectionRefusedError", "ConnectionResetError", "Py4JNetworkError"),
        only_with=("in connect_to_java_server", "Py4JNetworkError"),
        never_with=_IN_A_BATCH,
    ),
    Sign(
        kind=FailureKind.KILLED,
        phrases=(
            "SparkContext was shut down", "stopped SparkContext", "SparkContext.dagScheduler()",
            "[SPARK_JOB_CANCELLED", "cancelled as part of cancellation of all jobs",
        ),
    ),
    Sign(
        kind=FailureKind.OUT_OF_MEMORY,
        phrases=(
            "OutOfMemoryError", "MemoryError", "UNABLE_TO_ACQUIRE_MEMORY", "OOMKilled",
            "bigger than spark.driver.maxResultSize", "exceeding physical memory limits",
            "exceeding memory limits", "possible container OOM", "Cannot allocate memory",
        ),
    ),
    Sign(
        kind=FailureKind.SECOND_WRITER,
        phrases=(
            "[CONCURRENT_STREAM_LOG_UPDATE", "Concurrent update to the log", "[CONCURRENT_QUERY",
            "another query with same id is already active",
        ),
    ),
)  # fmt: skip
_DISTINCTIVE: Final = (
    # An assertion of StateStoreWriter: no task has reported an id of the new state.
    Sign(
        kind=FailureKind.SINK_AHEAD,
        phrases=(
            "CheckpointInfo length: 0, numPartitions:",
            "ChekpointInfo length: 0, numPartitions:",  # Spark 4.0
        ),
    ),
    # TextSocketMicroBatchStream.commit.
    Sign(
        kind=FailureKind.SOURCE_NOT_REPLAYABLE,
        phrases=("Offsets committed out of order: ",),
    ),
    # The same place with the collections of Scala 2.12 (Spark 3.5).
    Sign(
        kind=FailureKind.SOURCE_NOT_REPLAYABLE,
        phrases=("IndexOutOfBoundsException",),
        only_with=("TextSocketMicroBatchStream.commit(",),
    ),
    Sign(
        kind=FailureKind.SCHEMA_CHANGED,
        phrases=(
            "[DELTA_SCHEMA_CHANGED", "Detected schema change",
            "[DELTA_STREAMING_METADATA_EVOLUTION", "schema or metadata tracking log has been updated",
            "[UNKNOWN_FIELD_EXCEPTION",
        ),
    ),
    Sign(
        kind=FailureKind.SCHEMA_CHANGED,
        phrases=("AvroTypeException", "[AVRO_INCOMPATIBLE_READ_TYPE", "IncompatibleSchemaException"),
        remedy=_OTHER_AVRO,
    ),
    Sign(
        kind=FailureKind.INCOMPATIBLE,
        phrases=(
            "[DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE", "[DELTA_STREAMING_CANNOT_CONTINUE",
            "[DELTA_STREAMING_SCHEMA_EVOLUTION_UNSUPPORTED",
        ),
        remedy=_NO_EVOLUTION,
    ),
    Sign(
        kind=FailureKind.USER_CODE,
        phrases=("[STATE_STORE_COMMIT_VALIDATION_FAILED",),
        remedy=_BATCH_NOT_READ,
    ),
    Sign(
        kind=FailureKind.INCOMPATIBLE,
        phrases=(
            "_SCHEMA_NOT_COMPATIBLE", "[STATE_STORE_INCOMPATIBLE", "StateSchemaNotCompatible",
            "does not match existing schema", "[STATE_STORE_INVALID_",
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
            "[STREAM_STREAM_JOIN_INCOMPATIBLE", "[STREAMING_QUERY_EVOLUTION_ERROR",
            "[STREAMING_REAL_TIME_MODE.CHECKPOINT_FORMAT_V1_NOT_SUPPORTED",
            "[STREAMING_UNFINISHED_REPARTITION_DETECTED", "[STATE_REPARTITION_",
            "[INVALID_LOG_VERSION", "supported log version is",
            "[INVALID_CHANGE_LOG_READER_VERSION", "sources in the checkpoint offsets and now",
            "different number of state", "InvalidUnsafeRowException",
            "[STATE_STORE_PROVIDER_DOES_NOT_SUPPORT",
            "[INCOMPATIBLE_DATASOURCE_REGISTER", "is not compatible with the query",
        ),
    ),
    Sign(
        kind=FailureKind.INCOMPATIBLE,
        phrases=(
            "[KAFKA_DATA_LOSS", "[KINESIS_DATA_LOSS", "Some data may have been lost",
            "Some data may be lost", "OffsetOutOfRangeException",
            "Offsets out of range with no configured reset policy",
            "offset was changed from", "ResourceExpiredException",
        ),
        remedy=_LOST_DATA,
    ),
    Sign(
        kind=FailureKind.CHECKPOINT_DAMAGED,
        phrases=(
            "[CANNOT_LOAD_STATE_STORE", "[CANNOT_LOAD_CHECKPOINT", "Error reading snapshot file", "Error reading streaming state file",
            "Failed to read log file", "Incomplete log file", "Log file was malformed",
            "[MALFORMED_LOG_FILE", "IllegalStateException: batch ", "not found in offset log",
            "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
            "[CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED", "[CHECKPOINT_RDD",
            "[STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED", "ChecksumException",
            "[STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY", "[STATE_STORE_BASE_CHECKPOINT_ID_MISMATCH",
            "[STATE_REWRITER_INVALID_CHECKPOINT", "CORRUPTED_STATE",
        ),
    ),
    # Spark cannot tell deleted state from a query that had none before it was changed.
    Sign(
        kind=FailureKind.CHECKPOINT_DAMAGED,
        phrases=(
            "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
            "restarted with a new or updated state operation", "Error reading delta file",
        ),
        remedy=_NO_STATE,
    ),
    Sign(
        kind=FailureKind.TRANSIENT,
        # Messages of Kafka's Java client for a broker without an answer, a wrong protocol included. Calls that wait
        # when its thread ends fail with the third.
        phrases=(
            "Timed out waiting for a node assignment", "Timed out waiting to send the call",
            "The AdminClient thread has exited",
        ),
        remedy=_NO_NODE,
    ),
    Sign(
        kind=FailureKind.TRANSIENT,
        phrases=("Python worker failed to connect back", "Python worker to connect back"),
        remedy=_NO_WORKER,
    ),
    Sign(
        kind=FailureKind.TRANSIENT,
        phrases=(
            "ConnectException", "SocketException", "SocketTimeoutException", "ConnectTimeout",
            "UnknownHostException", "NoRouteToHost", "NoHttpResponse", "SSLException",
            "Connection refused", "Connection reset", "Broken pipe", "Connection timed out",
            "ConnectionError", "RemoteDisconnected", "Name or service not known", "gaierror:",
            "Temporary failure in name resolution", "Network is unreachable", "No route to host",
            "TimeoutError", "timed out", "TimeoutException", "Read timed out",
            "Too Many Requests", "Internal Server Error", "Bad Gateway", "Service Unavailable",
            "Gateway Time", "SlowDown", "Slow Down", "ThrottlingException", "RequestTimeout",
            "Status Code: 500", "Status Code: 503", "ExpiredToken", "ProvisionedThroughput",
            "No space left on device", "Disk quota exceeded", "Stale file handle",
            "Input/output error", "ExecutorLostFailure", "Slave lost", "Worker lost",
            "Executor heartbeat timed out", "FetchFailed", "MetadataFetchFailed",
            "Lost executor", "BlockMissingException", "StandbyException", "SafeModeException",
            "NotLeaderForPartition", "NotLeaderOrFollower", "UnknownTopicOrPartition", "LEADER_NOT_AVAILABLE",
            "CoordinatorNotAvailable", "BrokerNotAvailable", "DisconnectException",
            "Broker transport failure", "broker connections are down", "Message timed out",  # librdkafka
            "UNKNOWN_TOPIC_OR_PART",
            "DEADLOCK_DETECTED", "deadlock detected", "too many clients", "SQLTransient",
            "[FAILED_READ_FILE.FILE_NOT_EXIST", "underlying files have been updated",
            "[STREAMING_CHECKPOINT_LOG_WRITE_FAILURE",
        ),
    ),
    Sign(
        kind=FailureKind.CONFIGURATION,
        phrases=(
            "ClassNotFoundException", "NoClassDefFoundError", "NoSuchMethodError", "LinkageError",
            "UnsupportedClassVersionError", "ModuleNotFoundError", "ImportError:",
            "No suitable driver", "No FileSystem for scheme", "[DATA_SOURCE_NOT_FOUND",
            "Failed to find data source", "Failed to find the data source",
            "[KAFKA_DATA_SOURCE_NOT_ENABLED", "[PACKAGE_NOT_INSTALLED",
            "Cannot run program", "Could not parse Master URL", "[STREAMING_REAL_TIME_MODE.",
            "[INVALID_STREAMING_REAL_TIME_MODE", "[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT", "ParentNotDirectoryException",
            "AccessControlException", "AccessDenied", "Permission denied", "PermissionError",
            "Status Code: 401", "Status Code: 403", "HTTP Error 401", "HTTP Error 403",
            "401 Client Error", "403 Client Error", "InvalidAccessKeyId", "SignatureDoesNotMatch",
            "NoAuthWithAWSException", "SaslAuthenticationException", "AuthenticationException",
            "AuthorizationException", "authentication failed", "Access denied", "NoSuchBucket",
            "UnsupportedSaslMechanism", "InvalidTopicException", "Failed to load PEM", "RecordTooLargeException",
            # librdkafka
            "SASL authentication error", "Authentication failure", "mechanism handshake failed",
            "AUTHORIZATION_FAILED", "authorization failed", "MSG_SIZE_TOO_LARGE",
            "CERTIFICATE_VERIFY_FAILED", "SSLHandshakeException", "ConfigException", "[INVALID_CONF_VALUE",
            "[PYTHON_VERSION_MISMATCH", "Python in worker has different version",
        ),
    ),
    Sign(
        kind=FailureKind.CONFIGURATION,
        phrases=("[JAVA_GATEWAY_EXITED", "Java gateway process exited"),
        remedy=_NO_JVM,
    ),
    Sign(
        kind=FailureKind.KILLED,
        phrases=("Python worker exited unexpectedly", "Python worker process terminated"),
    ),
)  # fmt: skip
_GENERAL: Final = (
    # Parsers that stumble over a file of the checkpoint name neither the file nor Spark.
    Sign(
        kind=FailureKind.CHECKPOINT_DAMAGED,
        phrases=(
            "MalformedInputException", "JsonEOFException", "JsonParseException",
            "MismatchedInputException", "MappingException", "EOFException", "UTFDataFormatException",
            "NoSuchElementException", "AssertionError: assertion failed",
        ),
        only_with=_LOG_READERS,
        never_with=_IN_A_BATCH,
    ),
    Sign(
        kind=FailureKind.CHECKPOINT_DAMAGED,
        phrases=(
            "EOFException", "Stream is corrupted", "LZ4Exception", "FileNotFoundException",
            "NoSuchFileException", "IllegalStateException: Copied", "ZipException",
        ),
        only_with=_STATE_LOADERS,
    ),
    Sign(
        kind=FailureKind.INCOMPATIBLE,
        # Another source's log is read, e.g. JSON where the rate source keeps a number.
        phrases=('NumberFormatException: For input string: "{',),
        only_with=_LOG_READERS,
        never_with=_IN_A_BATCH,
    ),
    # The plan is the same at every start. Inside a batch function it may hang on the batch or on a
    # table that another job is writing, so there it counts as the user's code.
    Sign(
        kind=FailureKind.CONFIGURATION,
        phrases=(
            ".AnalysisException", ".ParseException", "captured.UnsupportedOperationException",
            "captured.IllegalArgumentException", "IllegalArgumentException: Invalid value '",
        ),
        never_with=_IN_A_BATCH,
    ),
)  # fmt: skip
_FALLBACK: Final = (
    Sign(
        kind=FailureKind.USER_CODE,
        phrases=(
            "Traceback (most recent call last)", *_IN_A_BATCH, "[FAILED_EXECUTE_UDF",
            "TRANSFORM_WITH_STATE_USER_FUNCTION_ERROR", "PickleException",
            "[CAST_INVALID_INPUT", "[CAST_OVERFLOW", "[ARITHMETIC_OVERFLOW", "[DIVIDE_BY_ZERO",
            "[INVALID_ARRAY_INDEX", "[CANNOT_PARSE_TIMESTAMP", "[USER_RAISED_EXCEPTION",
            "[DUPLICATED_MAP_KEY", "[MALFORMED_RECORD_IN_PARSING", "[NOT_NULL_ASSERT_VIOLATION",
            "[NUMERIC_VALUE_OUT_OF_RANGE", "ArithmeticException", "NumberFormatException",
            "DateTimeException", "ArrayIndexOutOfBoundsException", "NullPointerException",
        ),
    ),
    # How Spark 3.5 says that raise_error() or assert_true() was called.
    Sign(
        kind=FailureKind.USER_CODE,
        phrases=("java.lang.RuntimeException",),
        only_with=("catalyst.expressions.",),
    ),
)  # fmt: skip
WEIGHTS: Final[tuple[tuple[Sign, ...], ...]] = (_DECISIVE, _DISTINCTIVE, _GENERAL, _FALLBACK)
"""Signs from the heaviest to the lightest."""


class Hint(StrEnum):
    """Further facts in a text of Spark beside the kind of a failure."""

    FILES_GONE = "files_gone"
    """A file, or the records of a partition, that was to be read is not there."""
    IN_STATE = "in_state"
    """It is about the files of the state."""
    OTHER_FOLDER = "other_folder"
    """The file source's folder differs from the one in its checkpoint."""
    NO_OUTPUT = "no_output"
    """There is nothing at the path of an output."""
    EMPTY_OUTPUT = "empty_output"
    """The path of an output has no file with a schema."""
    REPLACED = "replaced"
    """Files that were listed are gone when they are read."""
    VALUE_SCHEMA = "value_schema"
    """The schema of the state's values is another one than the checkpoint's."""
    AT_SOURCE = "at_source"
    """The message of the status of a query that asks its sources for their offsets."""
    WAITING = "waiting"
    """The message of a query's status past its initialization (``MicroBatchExecution``):
    "Waiting for data to arrive", "Waiting for next trigger"."""


_HINTS: Final[Mapping[Hint, re.Pattern[str]]] = MappingProxyType(
    {
        Hint.FILES_GONE: re.compile(
            r"FILE_NOT_EXIST|FILE_NOT_FOUND|FileNotFound|PATH_NOT_FOUND|Path does not exist"
            r"|does not exist.{0,80}underlying files"
            r"|DATA_LOSS|data may have been lost|OffsetOutOfRange|NoOffsetForPartition"
            r"|Wrong basePath"
        ),
        Hint.IN_STATE: re.compile(
            r"STATE_STORE|/state/\d+/|STREAMING_STATE|_stateSchema|_metadata/"
        ),
        Hint.OTHER_FOLDER: re.compile(r"Wrong basePath"),
        Hint.NO_OUTPUT: re.compile(
            r"PATH_NOT_FOUND|Path does not exist|DELTA_(PATH|TABLE)_(DOES_)?NOT_"
        ),
        Hint.EMPTY_OUTPUT: re.compile(r"UNABLE_TO_INFER_SCHEMA|Unable to infer schema"),
        Hint.REPLACED: re.compile(
            r"FileNotFoundException|FILE_NOT_EXIST|FAILED_READ_FILE\.FILE_NOT"
            r"|batch \d+ doesn't exist"
        ),
        Hint.VALUE_SCHEMA: re.compile(r"STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"),
        Hint.AT_SOURCE: re.compile(r"\A(?:Getting offsets from|Initializing sources)"),
        Hint.WAITING: re.compile(r"\AWaiting"),
    }
)


def hints(text: str, hint: Hint) -> bool:
    return _HINTS[hint].search(text) is not None


def is_input_gone(text: str) -> bool:
    """Tell whether an error says that input is missing, and not a file of the state."""
    return hints(text, Hint.FILES_GONE) and not hints(text, Hint.IN_STATE)
