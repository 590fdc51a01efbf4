r"""
The properties file through which a stream's configuration, secrets included, reaches Spark.

Spark reads it as Java properties. Once a file is given, Spark leaves ``spark-defaults.conf``
unread, so that its text goes in front of ours; of two lines with one key the later counts. Spark
itself cuts blanks off both ends of every value; no notation prevents that.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from airflow_streaming.core.conf import conf_text
from airflow_streaming.exceptions import RuntimeNotFound
from airflow_streaming.launch.runtime import Runtime

_ESCAPES: Final = {
    "\\": "\\\\",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\f": "\\f",
    "=": "\\=",
    ":": "\\:",
    "#": "\\#",
    "!": "\\!",
}


def spark_defaults(runtime: Runtime, environment: Mapping[str, str]) -> str:
    """
    Return the defaults that this runtime's ``spark-submit`` would read; empty when there are none.

    :param environment: The driver's: SPARK_CONF_DIR in it counts before the runtime's ``conf``.
    :raises RuntimeNotFound: the file is there and cannot be read.
    """
    folder = environment.get("SPARK_CONF_DIR") or str(runtime.spark_home / "conf")
    path = Path(folder) / "spark-defaults.conf"
    try:
        return path.read_text(encoding="utf-8", errors="replace")  # as Java would read it
    except FileNotFoundError:
        return ""
    except OSError as err:
        raise RuntimeNotFound(
            f"Runtime {runtime.name!r} has defaults in {path} that cannot be read: "
            f"{err.strerror or err}. Make the file readable for this user."
        ) from err


def properties_text(conf: Mapping[str, Any], defaults: str = "") -> str:
    """
    Return the text of the properties file.

    :param conf: The stream's configuration, with its secrets.
    :param defaults: Text of ``spark-defaults.conf``, put in front as it is.
    """
    lines = [f"{_escape(key, is_key=True)}={_escape(conf_text(conf[key]))}" for key in sorted(conf)]
    # The empty line ends a last line of the defaults that asks for a continuation.
    front = [defaults, ""] if defaults else []
    return "\n".join([*front, *lines, ""])


def _escape(text: str, *, is_key: bool = False) -> str:
    leading = len(text) if is_key else len(text) - len(text.lstrip(" "))
    return "".join(_escape_char(char, index < leading) for index, char in enumerate(text))


def _escape_char(char: str, blank_counts: bool) -> str:
    if char == " ":
        return "\\ " if blank_counts else " "
    if char in _ESCAPES:
        return _ESCAPES[char]
    if " " <= char <= "~":
        return char
    # Java's characters are UTF-16 units: one beyond the first 65,536 is written as two.
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
