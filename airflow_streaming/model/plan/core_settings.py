"""
The settings of Spark's core that a plan records: all but those of a deployment.

A setting of a deployment chooses places, sizes, networks, security, logs or retries of a run. Two hosts always differ
in them, and no row does. The source is the list of ``org.apache.spark.internal.config`` of the supported releases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

_DEPLOYMENT: Final = re.compile(
    r"""spark\.(?!files\.(?:maxPartitionBytes|openCostInBytes)$)  # these two split the input of an RDD
    (?: app|appStateStore|master|submit|deploy|standalone|worker|cores|local|kubernetes|yarn|mesos|connect|home
    | dead|resources|stage|barrier|driver|executor|executorEnv|dynamicAllocation|decommission|scheduler|locality
    | jars|files|archives|repl|pyspark|r|sparkr|user|api
    | ui|acls|admin|modify|history|eventLog|metrics|taskMetrics|log|logConf|plugins|extraListeners|redaction
    | shutdown|test|testing|openlineage
    | authenticate|security|ssl|kerberos|network|rpc|port|blockManager|block
    | memory|storage|diskStore|unsafe|buffer|cleaner|reducer|shuffle|broadcast|io|file
    | task|excludeOnFailure|blacklist|checkpoint|kryo|kryoserializer|serializer|streaming
    | rdd\.(?:cache|checkpoint|compress)|org\.apache\.hadoop
    | hadoop\.(?:fs|dfs|yarn|hadoop|ipc|hive\.metastore|javax\.jdo|mapreduce\.fileoutputcommitter|aws|google)
    )(?:\.|$)""",
    re.VERBOSE,
)
_OPTIONS: Final = re.compile(r"spark\.(?:driver|executor)\.(?:extra|default)JavaOptions")
_PROPERTY: Final = re.compile(
    r"-D(?:user\.(?:timezone|language|country|region|variant)|file\.encoding)=\S+"
)
"""The properties of Java that change how times and texts are read."""


def recorded_core(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the settings of Spark's core that a plan records; of Java's options their zone, language and encoding."""
    for key, value in pairs:
        if _OPTIONS.fullmatch(key):
            if properties := _PROPERTY.findall(value):
                yield key, " ".join(sorted(properties))
        elif is_recorded(key):
            yield key, value


def is_recorded(key: str) -> bool:
    """Tell whether a plan records a setting of Spark's core with its whole value."""
    if not key.startswith("spark.") or key.startswith("spark.sql."):
        return False
    return _DEPLOYMENT.match(key) is None
