"""
Failures that could not be provoked for the corpus, written after the libraries' own wording.

They need a broker, an object store, a cluster manager or a database. They are no evidence of what a
real failure looks like, and are counted apart from those that are.
"""

from __future__ import annotations

from typing import Final

from airflow_streaming.model.spark.failure_signs import FailureKind as Kind

_JOB: Final = (
    "Job aborted due to stage failure: Task 3 in stage 9.0 failed 4 times, most recent failure: "
    "Lost task 3.3 in stage 9.0 (TID 41) (10.0.0.7 executor 2): "
)
_BATCH: Final = (
    "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach "
    "batch sink. Reason: Traceback (most recent call last):\n"
)

HANDWRITTEN: Final[dict[str, tuple[Kind, str]]] = {
    "spark 4.0: a sink that is ahead, as that release spells it": (
        Kind.SINK_AHEAD,
        "java.lang.AssertionError: assertion failed: ChekpointInfo length: 0, numPartitions: 2",
    ),
    "delta: the table has a new column": (
        Kind.SCHEMA_CHANGED,
        (
            "org.apache.spark.sql.delta.DeltaIllegalStateException: [DELTA_SCHEMA_CHANGED_WITH_VERSION] Detected "
            "schema change in version 7:\nstreaming source schema: root\n |-- id: long (nullable = true)\n\ndata file "
            "schema: root\n |-- id: long (nullable = true)\n |-- name: string (nullable = true)\n"
        ),
    ),
    "delta: a column was renamed and no schema log is kept": (
        Kind.INCOMPATIBLE,
        (
            "[DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG] Streaming read is not supported on tables "
            "with read-incompatible schema changes (e.g. rename or drop or datatype changes)."
        ),
    ),
    "avro: records of another schema": (
        Kind.SCHEMA_CHANGED,
        f"{_JOB}org.apache.avro.AvroTypeException: Found long, expecting string",
    ),
    "a Python worker that takes more than 10 s to start": (
        Kind.TRANSIENT,
        "[STREAM_FAILED] Query [id = a, runId = b] terminated with exception: Python worker failed to connect back.",
    ),
    "kafka: no broker answers": (
        Kind.TRANSIENT,
        (
            "Timed out waiting for a node assignment. Call: describeTopics\n"
            "Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node"
        ),
    ),
    "kafka: no broker answers, and a later call finds the client closed": (
        Kind.TRANSIENT,
        (
            "Timed out waiting for a node assignment. Call: describeTopics\n"
            "Caused by: java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: "
            "The AdminClient thread has exited. Call: describeTopics"
        ),
    ),
    "kafka: a client without TLS or a login asks a listener that wants it": (
        Kind.TRANSIENT,
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed out waiting to send the call. Call: "
            "fetchMetadata"
        ),
    ),
    "kafka: a wrong password": (
        Kind.CONFIGURATION,
        (
            "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.SaslAuthenticationException: "
            "Authentication failed"
        ),
    ),
    "kafka: a login that the broker does not offer": (
        Kind.CONFIGURATION,
        (
            "org.apache.kafka.common.errors.UnsupportedSaslMechanismException: Client SASL mechanism 'PLAIN' not "
            "enabled in the server, enabled mechanisms are [SCRAM-SHA-256]"
        ),
    ),
    "kafka: a certificate that is not trusted": (
        Kind.CONFIGURATION,
        (
            "org.apache.kafka.common.errors.SslAuthenticationException: SSL handshake failed\n"
            "Caused by: javax.net.ssl.SSLHandshakeException: PKIX path building failed"
        ),
    ),
    "kafka: a wrong password, in a function": (
        Kind.CONFIGURATION,
        (
            f'{_BATCH}cimpl.KafkaException: KafkaError{{code=_AUTHENTICATION,val=-169,str="SASL '
            'authentication error: Authentication failed"}'
        ),
    ),
    "kafka: a topic that the user may not write, in a function": (
        Kind.CONFIGURATION,
        (
            f"{_BATCH}cimpl.KafkaException: KafkaError{{code=TOPIC_AUTHORIZATION_FAILED,val=29,"
            'str="Broker: Topic authorization failed"}'
        ),
    ),
    "kafka: a record larger than the producer sends": (
        Kind.CONFIGURATION,
        (
            f"{_JOB}org.apache.kafka.common.errors.RecordTooLargeException: The message is 1048660 bytes when "
            "serialized which is larger than 1048576, which is the value of the max.request.size configuration."
        ),
    ),
    "kafka: the broker went away": (
        Kind.TRANSIENT,
        f"{_JOB}org.apache.kafka.common.errors.DisconnectException: null",
    ),
    "kafka: the partition has no leader": (
        Kind.TRANSIENT,
        (
            f"{_JOB}org.apache.kafka.common.errors.NotLeaderOrFollowerException: For requests intended "
            "only for the leader, this broker is not the current leader."
        ),
    ),
    "kafka: the broker of a Python source is away": (
        Kind.TRANSIENT,
        (
            'Traceback (most recent call last):\n  File "python_kafka.py", line 114, in _bounds\n'
            'cimpl.KafkaException: KafkaError{code=_TRANSPORT,val=-195,str="Failed to get metadata: Local: '
            'Broker transport failure"}'
        ),
    ),
    "kafka: retention has overtaken the checkpoint": (
        Kind.INCOMPATIBLE,
        (
            f"{_JOB}org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position is out "
            "of range for partition orders-0"
        ),
    ),
    "kafka: data loss by its condition": (
        Kind.INCOMPATIBLE,
        (
            "[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost because they are not "
            "available in Kafka any more; either the data was aged out or the topic was recreated."
        ),
    ),
    "kafka: the topic was made anew": (
        Kind.INCOMPATIBLE,
        (
            "Partition orders-0's offset was changed from 1200 to 3, some data may have been missed. "
            "Some data may have been lost because they are not available in Kafka any more."
        ),
    ),
    "kafka: the password is wrong": (
        Kind.CONFIGURATION,
        (
            "Failed to construct kafka consumer\nCaused by: "
            "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed"
        ),
    ),
    "kafka: the topic may not be read": (
        Kind.CONFIGURATION,
        (
            f"{_JOB}org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized to "
            "access topics: [orders]"
        ),
    ),
    "kafka: the address is no address": (
        Kind.CONFIGURATION,
        (
            "Failed to construct kafka consumer\nCaused by: "
            "org.apache.kafka.common.config.ConfigException: Invalid url in bootstrap.servers: broker"
        ),
    ),
    "s3: 503 while writing the commit": (
        Kind.TRANSIENT,
        (
            "[STREAM_FAILED] Query terminated with exception: PUT 0-byte object on c/commits/7\nCaused "
            "by: AmazonS3Exception: Please reduce your request rate. (Service: Amazon S3; Status Code: "
            "503; Error Code: SlowDown)"
        ),
    ),
    "s3: state cannot be read because the network is away": (
        Kind.TRANSIENT,
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.\nCaused "
            "by: com.amazonaws.SdkClientException: Unable to execute HTTP request\nCaused by: "
            "java.net.UnknownHostException: bucket.s3.example.com"
        ),
    ),
    "s3: a session token ran out": (
        Kind.TRANSIENT,
        (
            "getFileStatus on s3a://b/c: AmazonS3Exception: The provided token has expired. (Status "
            "Code: 400; Error Code: ExpiredToken)"
        ),
    ),
    "s3: no right to the bucket": (
        Kind.CONFIGURATION,
        (
            "java.nio.file.AccessDeniedException: s3a://b/c: getFileStatus on s3a://b/c: "
            "AmazonS3Exception: Forbidden (Service: Amazon S3; Status Code: 403)"
        ),
    ),
    "s3: no such bucket": (
        Kind.CONFIGURATION,
        (
            "java.io.FileNotFoundException: s3a://b/c: AmazonS3Exception: The specified bucket does not "
            "exist (Status Code: 404; Error Code: NoSuchBucket)"
        ),
    ),
    "hdfs: the name node is in standby": (
        Kind.TRANSIENT,
        (
            "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.ipc.StandbyException): Operation "
            "category WRITE is not supported in state standby"
        ),
    ),
    "hdfs: a block is away": (
        Kind.TRANSIENT,
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.\nCaused "
            "by: org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block: BP-1"
        ),
    ),
    "hdfs: no right to the checkpoint": (
        Kind.CONFIGURATION,
        (
            "org.apache.hadoop.security.AccessControlException: Permission denied: user=spark, "
            "access=WRITE, inode=/c:hdfs:drwxr-xr-x"
        ),
    ),
    "yarn: a container over its memory": (
        Kind.OUT_OF_MEMORY,
        (
            f"{_JOB}ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: "
            "Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5.5 GB used."
        ),
    ),
    "yarn: a node was lost": (
        Kind.TRANSIENT,
        (
            f"{_JOB}ExecutorLostFailure (executor 2 exited unrelated to the running tasks) Reason: "
            "Container released on a *lost* node"
        ),
    ),
    "kubernetes: a pod over its memory": (
        Kind.OUT_OF_MEMORY,
        (
            f"{_JOB}ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: "
            "The executor with id 2 exited with exit code 137(SIGKILL, possible container OOM)."
        ),
    ),
    "kubernetes: a pod was deleted": (
        Kind.TRANSIENT,
        (
            f"{_JOB}ExecutorLostFailure (executor 2 exited unrelated to the running tasks) Reason: The "
            "executor with ID 2 (registered at 1 ms, not removed) was deleted by a user or the framework"
        ),
    ),
    "cluster: an executor's heartbeat is missing": (
        Kind.TRANSIENT,
        (
            f"{_JOB}ExecutorLostFailure (executor 2 exited caused by one of the running tasks) Reason: "
            "Executor heartbeat timed out after 132104 ms"
        ),
    ),
    "cluster: shuffle files are gone with their executor": (
        Kind.TRANSIENT,
        (
            "Job aborted due to stage failure: ShuffleMapStage 9 has failed the maximum allowable "
            "number of times: 4. Most recent failure reason: "
            "org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location"
        ),
    ),
    "python: workers of another version": (
        Kind.CONFIGURATION,
        (
            f"{_JOB}org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in "
            "worker has different version (3, 9) than that in driver 3.11"
        ),
    ),
    "requests: the service is away": (
        Kind.TRANSIENT,
        (
            f"{_BATCH}requests.exceptions.ConnectionError: HTTPConnectionPool(host='api', port=80): Max "
            "retries exceeded with url: /orders"
        ),
    ),
    "requests: the service is overloaded": (
        Kind.TRANSIENT,
        (
            f"{_BATCH}requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: "
            "http://api/orders"
        ),
    ),
    "requests: the key is wrong": (
        Kind.CONFIGURATION,
        f"{_BATCH}requests.exceptions.HTTPError: 401 Client Error: Unauthorized for url: http://api",
    ),
    "postgres: the server refuses": (
        Kind.TRANSIENT,
        (
            f"{_BATCH}py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n"
            ": org.postgresql.util.PSQLException: Connection to db:5432 refused.\n"
            "Caused by: java.net.ConnectException: Connection refused"
        ),
    ),
    "postgres: a deadlock": (
        Kind.TRANSIENT,
        f"{_BATCH}psycopg2.errors.DeadlockDetected: deadlock detected\nDETAIL: Process 1 waits",
    ),
    "postgres: the password is wrong": (
        Kind.CONFIGURATION,
        (
            f"{_BATCH}py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n: org."
            'postgresql.util.PSQLException: FATAL: password authentication failed for user "etl"'
        ),
    ),
    "postgres: a row breaks a constraint": (
        Kind.USER_CODE,
        f"{_BATCH}psycopg2.errors.NotNullViolation: null value in column price of relation orders",
    ),
    "spark: a broadcast took too long": (
        Kind.TRANSIENT,
        (
            "Could not execute broadcast in 300 secs.\nCaused by: "
            "java.util.concurrent.TimeoutException: Futures timed out after [300 seconds]"
        ),
    ),
    "spark: another release's changelog": (
        Kind.INCOMPATIBLE,
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.\nCaused "
            "by: SparkException: [INVALID_CHANGE_LOG_READER_VERSION] The change log reader version "
            "cannot be 9."
        ),
    ),
    "spark: another type of a state variable": (
        Kind.INCOMPATIBLE,
        (
            "[STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE] Cannot change total to ListState between query "
            "restarts. Please set total to ValueState, or restart with a new checkpoint directory."
        ),
    ),
    "spark: a checksum of a state row": (
        Kind.CHECKPOINT_DAMAGED,
        (
            "[STATE_STORE_ROW_CHECKSUM_VERIFICATION_FAILED] Row checksum verification failed, the row "
            "may be corrupted."
        ),
    ),
}
