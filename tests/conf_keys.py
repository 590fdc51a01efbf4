"""Keys that Spark takes and that are no plain words with dots between them, and how Java reads them."""

from __future__ import annotations

import re
from typing import Final

ODD_KEYS: Final = (
    "spark.kubernetes.driver.annotation.prometheus.io/scrape",
    "spark.kubernetes.node.selector.kubernetes.io/arch",
    "spark.kubernetes.driver.label.app.kubernetes.io/name",
    "spark.metrics.conf.*.sink.console.class",
    "spark.hadoop.fs.s3a.bucket.a:b.endpoint",
    "spark.a[0].$x.{y}#!\\'\"@~,;+%",
    "spark.größe.🚀",
)
_PAIR = re.compile(r"((?:[^\\\s=:]|\\.)+)[ \t\f]*[=: \t\f]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(u[0-9a-f]{4}|.)", re.DOTALL)
_CONTROL = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    """Return what ``java.util.Properties.load`` makes of a text whose lines are never continued."""

    def plain(escaped: str) -> str:
        units = _ESCAPED.sub(
            lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else _CONTROL.get(m[1], m[1]),
            escaped,
        )
        return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")

    pairs = [_PAIR.fullmatch(line) for line in text.split("\n") if line.strip(" \t\f")]
    return {plain(pair[1]): plain(pair[2]) for pair in pairs if pair is not None}
