"""
The signs of each kind of failure: conditions, exception classes and sentences, as a table.

Conditions are written with their opening bracket, so that ``[CANNOT_LOAD_STATE_STORE`` covers all
its sub-conditions. Sentences are those of Spark 3.5, which names few conditions, and of libraries.
The failures that the table was made from are kept under ``tests/corpus``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from airflow_streaming.core.failures.kind import FailureKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """
    Phrases that tell a kind.

    :param only_with: It counts only if one of these is anywhere in the text, stack frames included.
    :param never_with: It does not count if one of these is.
    :param remedy: What to do where the kind's own remedy would mislead.
    """

    kind: FailureKind
    phrases: tuple[str, ...]
    only_with: tuple[str, ...] = ()
    never_with: tuple[str, ...] = ()
    remedy: str | None = None

    def counts_in(self, text: str) -> bool:
        """Tell whether the sign may be looked for in a text."""
        if any(phrase in text for phrase in self.never_with):
            return False
        return not self.only_with or any(phrase in text for phrase in self.only_with)


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

# The checkpoint is whole, but the data do not come back by themselves, and whether to go on without
# them is a person's choice: so it counts as not fitting the source, and not as transient.
_LOST_DATA: Final = (
    "The source no longer holds the data at which the checkpoint stands. Find out what was lost; "
    "then bring it back, or let the stream skip it (failOnDataLoss=false), or start with a new "
    "checkpoint."
)
_NO_STATE: Final = (
    "If the query kept state before, its files were deleted: restore the checkpoint from a backup. "
    "If the state is new in the script, give the changed query a new checkpoint."
)
_NO_JVM: Final = (
    "Spark's Java process did not start. Its own words are in the driver's log; look for a setting "
    "it refused, a missing Java, or too little memory."
)

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
    Sign(
        kind=FailureKind.INCOMPATIBLE,
        phrases=(
            "_SCHEMA_NOT_COMPATIBLE", "[STATE_STORE_INCOMPATIBLE", "StateSchemaNotCompatible",
            "does not match existing schema", "[STATE_STORE_INVALID_",
            "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
            "[STREAM_STREAM_JOIN_INCOMPATIBLE", "[STREAMING_QUERY_EVOLUTION_ERROR",
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
            "Cannot run program", "Could not parse Master URL", "ParentNotDirectoryException",
            "AccessControlException", "AccessDenied", "Permission denied", "PermissionError",
            "Status Code: 401", "Status Code: 403", "HTTP Error 401", "HTTP Error 403",
            "401 Client Error", "403 Client Error", "InvalidAccessKeyId", "SignatureDoesNotMatch",
            "NoAuthWithAWSException", "SaslAuthenticationException", "AuthenticationException",
            "AuthorizationException", "authentication failed", "Access denied", "NoSuchBucket",
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
        # One source's log read as another's, e.g. JSON where the rate source keeps a number.
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
