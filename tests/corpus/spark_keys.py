"""
The keys of the configuration of Spark SQL and of Spark's core, as a release defines them.

They are the texts in the constants of ``SQLConf`` and its like that are a key. No JVM is needed.

    python -m tests.corpus.spark_keys .runtimes/spark-4.3
"""

# ruff: noqa: T201 - a program that prints
from __future__ import annotations

import re
import struct
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_KEY: Final = re.compile(r"spark\.sql\.[A-Za-z0-9_.-]*[A-Za-z0-9_]")
_CLASSES: Final = re.compile(
    r"org/apache/spark/sql/(?:internal/(?:SQLConf|StaticSQLConf|SqlApiConf|SqlApiConfHelper)|hive/HiveUtils)\$?\.class"
)
_CORE_KEY: Final = re.compile(r"spark\.[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9_]")
_CORE_CLASSES: Final = re.compile(r"org/apache/spark/internal/config/[\w$]+\.class")
_SIZES: Final = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
_JARS: Final = ("spark-catalyst", "spark-sql-api", "spark-sql", "spark-hive")
_TWICE: Final = (5, 6)
_TEXT: Final = 1


def keys_of(runtime: Path) -> list[str]:
    """Return every key that the SQL of an installed Spark defines."""
    return _keys(runtime, _JARS, _CLASSES, _KEY)


def core_keys_of(runtime: Path) -> list[str]:
    """Return every key that the core of an installed Spark defines."""
    return _keys(runtime, ("spark-core",), _CORE_CLASSES, _CORE_KEY)


def _keys(
    runtime: Path, names: Iterable[str], classes: re.Pattern[str], key: re.Pattern[str]
) -> list[str]:
    (jars,) = runtime.glob("lib/python3*/site-packages/pyspark/jars")
    found: set[str] = set()
    for jar in sorted(path for name in names for path in jars.glob(f"{name}_*.jar")):
        with zipfile.ZipFile(jar) as opened:
            for name in opened.namelist():
                if classes.fullmatch(name):
                    found |= {text for text in texts_of(opened.read(name)) if key.fullmatch(text)}
    return sorted(found)


def texts_of(data: bytes) -> Iterator[str]:
    """Yield the texts among the constants of a class file."""
    (count,) = struct.unpack_from(">H", data, 8)
    place, number = 10, 1
    while number < count:
        kind = data[place]
        if kind == _TEXT:
            (size,) = struct.unpack_from(">H", data, place + 1)
            yield data[place + 3 : place + 3 + size].decode("utf-8", "replace")
            place += 3 + size
        else:
            place += 1 + _SIZES[kind]
        number += 2 if kind in _TWICE else 1


if __name__ == "__main__":
    print(*keys_of(Path(sys.argv[1])), sep="\n")
