"""
Complete the Iceberg jar that the tests get from a Python package.

    python scripts/iceberg_jar.py FOLDER OUTPUT

The package leaves out the copy of Jackson that Iceberg itself calls, and keeps the one of its Parquet. The
second is written a second time, under the name of the first: in a class file names stand in the constant
pool alone, each with its own length. The jar that Maven has needs none of this.
"""

from __future__ import annotations

import struct
import sys
import zipfile
from pathlib import Path

THERE = "org/apache/iceberg/shaded/org/apache/parquet/shaded/com/fasterxml/jackson"
MISSING = "org/apache/iceberg/shaded/com/fasterxml/jackson"
JAR = "iceberg-spark-runtime-3.5_2.12-*.jar"

UTF8 = 1
SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4}
SIZES |= {19: 2, 20: 2}
"""Bytes after the tag of each constant; JVM specification, 4.4."""
TWO_PLACES = (5, 6)


def renamed(text: bytes) -> bytes:
    """Return a constant with the other package's name, as a path or with points."""
    for old, new in ((THERE, MISSING), (THERE.replace("/", "."), MISSING.replace("/", "."))):
        text = text.replace(old.encode(), new.encode())
    return text


def relocated(data: bytes) -> bytes:
    """Return a class file in which every constant names the other package."""
    count = struct.unpack_from(">H", data, 8)[0]
    parts, at, number = [data[:10]], 10, 1
    while number < count:
        tag = data[at]
        if tag == UTF8:
            end = at + 3 + struct.unpack_from(">H", data, at + 1)[0]
            text = renamed(data[at + 3 : end])
            parts.append(struct.pack(">BH", UTF8, len(text)) + text)
        else:
            end = at + 1 + SIZES[tag]
            parts.append(data[at:end])
        at, number = end, number + (2 if tag in TWO_PLACES else 1)
    return b"".join((*parts, data[at:]))


def complete(jar: Path, output: Path) -> None:
    """Write the jar with what is missing."""
    unfinished = output.with_suffix(".part")
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(unfinished, "w") as new:
        names = set(old.namelist())
        for name in sorted(names):
            data = old.read(name)
            new.writestr(name, data)
            copy = name.replace(THERE, MISSING)
            if copy not in names and name.endswith(".class"):
                new.writestr(copy, relocated(data))
    unfinished.rename(output)


if __name__ == "__main__":
    found = sorted(Path(sys.argv[1]).rglob(JAR))
    complete(found[-1], Path(sys.argv[2]))
