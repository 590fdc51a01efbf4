"""
The driver's environment, its properties file, and files that only their owner may read.

A driver deletes the launch files with secrets as soon as Spark has read them. A driver that dies
before that leaves them. So they are named by their epoch, and deleted when the driver is proved
gone and before the next driver is started.

The worker's environment holds Airflow's connections and keys, and a Python that is not Spark's. The
driver gets everything else: cloud credentials, Hadoop and Kerberos settings, locale.

Spark reads the file as Java properties. With a file, Spark ignores ``spark-defaults.conf``, so its
text goes in front of ours; of two lines with one key the later counts. Spark itself trims blanks
off both ends of every value; no notation prevents that.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from airflow_streaming.exceptions import AlreadyExists, LaunchError, RuntimeNotFound, SpecError
from airflow_streaming.launch.java import OPTIONS_VARIABLE, archive_options
from airflow_streaming.launch.runtime import Runtime
from airflow_streaming.model.names import numbered
from airflow_streaming.model.records.epoch import Epoch
from airflow_streaming.model.spark.conf import conf_text
from airflow_streaming.model.spark.secret_conf import redact
from airflow_streaming.model.spark.secrets import (
    REDACTED,
    SPARK_REDACTION,
    is_secret,
    is_secret_name,
)

SUFFIXES: Final = (".conf", ".keytab", ".java", ".properties", ".kubeconfig")
"""
Of Spark's properties, of the connection's keytab, of Java options that are secret; and, while a driver
is submitted to Kubernetes, of its properties and of the login.
"""
_SECRET: Final = re.compile(
    r"([0-9]{6,18})-[0-9a-f]{8}\.(?:conf|keytab|java|properties|kubeconfig)"
)

_AIRFLOWS: Final = re.compile(r"_*(AIRFLOW|CELERY|GUNICORN|FORKED_BY_MULTIPROCESSING)")
_ANOTHER_PYTHONS: Final = re.compile(r"PYTHON|VIRTUAL_ENV|CONDA_|_*PYSPARK")
_ANOTHER_SPARKS: Final = frozenset(
    {
        "SPARK_HOME",
        "SPARK_REMOTE",
        "SPARK_API_MODE",
        "SPARK_CONNECT_MODE_ENABLED",
        "SPARK_ENV_LOADED",  # would keep spark-submit from reading the runtime's spark-env.sh
        "SPARK_SCALA_VERSION",
    }
)
_ADDRESSES: Final = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
_HOSTS: Final = ("spark.driver.host", "spark.driver.bindAddress")
_LOCAL: Final = re.compile(r"local(\[.*\])?")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORD: Final = re.compile(_NAME.pattern.encode())

_OF_JOBS: Final = (
    # Where programs, the user's files and libraries are, and how text is written.
    re.compile(r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR|LD_LIBRARY_PATH"),
    # Whom to trust, and the way out.
    re.compile(r"SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|(HTTPS?|NO)_PROXY"),
    # Java, Spark, Hadoop and Kerberos.
    re.compile(r"JAVA_HOME|JDK_JAVA_OPTIONS|JAVA_TOOL_OPTIONS|(SPARK|HADOOP|YARN)_[A-Z_]+"),
    re.compile(r"HIVE_CONF_DIR|KRB5_CONFIG|KRB5CCNAME"),
    # Stores of sources and checkpoints: their clients find credentials so.
    re.compile(r"(AWS|AZURE|GOOGLE|CLOUDSDK|GCE|GCS)_[A-Z0-9_]+"),
)
"""Names of variables that a short Spark job gets of the worker's; all others stay behind."""

_REDACTION: Final = "spark.redaction.regex"
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


def secret_files(folder: Path, epoch: Epoch) -> tuple[Path, ...]:
    """Return the files with which an epoch's launch hands over secrets, in ``SUFFIXES``' order."""
    name = f"{numbered(epoch.number)}-{epoch.token[:8]}"
    return tuple(folder / f"{name}{suffix}" for suffix in SUFFIXES)


def sweep_secrets(folder: Path, up_to: int, keep: tuple[Path, ...] = ()) -> None:
    """
    Delete the secrets that launches of dead drivers left in a folder.

    :param up_to: The newest epoch whose files may go; every driver up to it is proved gone.
    :param keep: Files of the launch that is just being made.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - thousands of logs; names are enough
            found = _SECRET.fullmatch(name)
            if found and int(found[1]) <= up_to and folder / name not in keep:
                delete_secret(folder / name)


def delete_secret(path: Path) -> None:
    """Delete a file with secrets, if it is a plain file of this user; no error when it is not."""
    with contextlib.suppress(OSError):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
            path.unlink()


def private_folder(path: Path) -> Path:
    """
    Create a folder and its missing parents, each with mode 0700.

    :raises LaunchError: it cannot be created, or something else has its name.
    """
    try:
        # Path.mkdir applies the mode to the last folder only; its parents would be readable.
        for folder in reversed([path, *path.parents]):
            if not folder.is_dir():
                folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as err:
        raise LaunchError(
            f"The folder {path} cannot be created: {err.strerror or err}. "
            "Check that its parent exists and that this user may write there."
        ) from err
    return path


def open_private_log(path: Path) -> int:
    """
    Open a file for appending, with mode 0600, and return its descriptor.

    :raises LaunchError: it cannot be opened, or is a symbolic link.
    """
    private_folder(path.parent)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as err:
        raise LaunchError(
            f"The driver log {path} cannot be written: {err.strerror or err}. "
            "Check that it is a plain file and that this user may write there."
        ) from err
    os.fchmod(descriptor, 0o600)
    return descriptor


def write_private(path: Path, content: str | bytes) -> Path:
    """
    Create a file with mode 0600; it may hold secrets.

    :raises AlreadyExists: the name is taken, by whatever; it is left as it is.
    :raises LaunchError: it cannot be written.
    """
    private_folder(path.parent)
    data = content.encode() if isinstance(content, str) else content
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError as err:
        raise AlreadyExists(str(path)) from err
    except OSError as err:
        raise _unwritable(path, err) from err
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123  # a descriptor
            file.write(data)
    except BaseException as err:
        path.unlink(missing_ok=True)  # half of it is a secret too
        if isinstance(err, OSError):
            raise _unwritable(path, err) from err
        raise
    return path


def _unwritable(path: Path, err: OSError) -> LaunchError:
    return LaunchError(
        f"The private file {path} cannot be written: {err.strerror or err}. "
        "Check that its folder belongs to this user and that the disk has room."
    )


def job_variables(base: Mapping[str, str], code: Iterable[bytes] = ()) -> dict[str, str]:
    """
    Return the variables of the worker that a short Spark job needs to run and to read its sources.

    :param code: Texts of the user's code. A variable that they name has the value that the driver would
        see, else the plan of the job is another one. Secrets stay behind.
    """
    words = {word.decode() for text in code for word in _WORD.findall(text)}
    return {
        name: value
        for name, value in base.items()
        if any(pattern.fullmatch(name.upper()) for pattern in _OF_JOBS)
        or (name in words and not is_secret_name(name) and not is_secret(value))
    }


def driver_environment(
    base: Mapping[str, str], runtime: Runtime, extra: Mapping[str, str]
) -> dict[str, str]:
    """
    Return the driver's environment, with the runtime's class data archive if it exists.

    :param base: The worker's environment.
    :param extra: The stream's ``env``; it wins over the worker's. It may not choose another Spark,
        Python or Java: these were checked as one combination and are recorded with the deployment.
    :raises SpecError: ``extra`` has an invalid name, or a name that the runtime sets.
    """
    kept = {name: value for name, value in base.items() if not _is_dropped(name)}
    ours = {
        "SPARK_HOME": str(runtime.spark_home),
        "PYSPARK_PYTHON": str(runtime.python),
        "PYSPARK_DRIVER_PYTHON": str(runtime.python),
    }
    if runtime.java_home is not None:
        ours["JAVA_HOME"] = str(runtime.java_home)
    for name in extra:
        _check(name, runtime)
    environment = {**kept, **extra, **ours}
    # In front, so that options which a user gives count.
    archive = archive_options(runtime.spark_home, runtime.java)
    options = f"{archive} {environment.get(OPTIONS_VARIABLE, '')}".strip()
    return {**environment, OPTIONS_VARIABLE: options} if options else environment


def listening(
    environment: Mapping[str, str], master: str, conf: Mapping[str, str]
) -> dict[str, str]:
    """
    Return the environment with which a driver listens on this host only, its UI too.

    Spark's UI asks for no password, and by default listens on all addresses. Where the user
    names an address or a host, and where executors run elsewhere and call the driver, nothing is
    changed.
    """
    is_said = any(name in environment for name in _ADDRESSES) or any(key in conf for key in _HOSTS)
    if is_said or _LOCAL.fullmatch(master) is None:
        return dict(environment)
    return {**environment, "SPARK_LOCAL_IP": "127.0.0.1"}


def _is_dropped(name: str) -> bool:
    upper = name.upper()
    patterns = (_AIRFLOWS, _ANOTHER_PYTHONS)
    return upper in _ANOTHER_SPARKS or any(pattern.match(upper) for pattern in patterns)


def _check(name: str, runtime: Runtime) -> None:
    if not _NAME.fullmatch(name):
        raise SpecError(
            f"{name!r} cannot be the name of an environment variable. "
            "Use letters, digits and '_', and no digit first."
        )
    if name in {"SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME"}:
        raise SpecError(
            f"The stream's env may not set {name}; runtime {runtime.name!r} does. "
            "Choose another runtime, or define one under [streaming] runtimes."
        )


def conf_folder(runtime: Runtime, environment: Mapping[str, str]) -> Path:
    """Return the folder with a runtime's settings; it stands first on the class path of its drivers."""
    return Path(environment.get("SPARK_CONF_DIR") or runtime.spark_home / "conf")


def spark_defaults(runtime: Runtime, environment: Mapping[str, str]) -> str:
    """
    Return the defaults that this runtime's ``spark-submit`` would read; empty without any.

    :param environment: The driver's: SPARK_CONF_DIR in it counts before the runtime's ``conf``.
    :raises RuntimeNotFound: the file exists and cannot be read.
    """
    path = conf_folder(runtime, environment) / "spark-defaults.conf"
    try:
        return path.read_text(encoding="utf-8", errors="replace")  # as Java would read it
    except FileNotFoundError:
        return ""
    except OSError as err:
        raise RuntimeNotFound(
            f"Runtime {runtime.name!r} has defaults in {path} that cannot be read: "
            f"{err.strerror or err}. Make the file readable for this user."
        ) from err


def guarded(conf: Mapping[str, str], defaults: str = "") -> dict[str, str]:
    """
    Return the configuration with which Spark's own pages show none of what we know to be secret.

    :param defaults: Text of ``spark-defaults.conf``. Who says there or in ``conf`` what to redact
        is followed.
    """
    is_said = _REDACTION in conf or re.search(
        rf"^[ \t\f]*{re.escape(_REDACTION)}[\s=:]", defaults, re.MULTILINE
    )
    return dict(conf) if is_said else {_REDACTION: SPARK_REDACTION, **conf}


def split_secrets(conf: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the public and the secret part of a configuration."""
    hidden = {key for key, value in redact(conf).items() if value == REDACTED}
    values = {key: value for key, value in conf.items() if key not in hidden}
    return values, {key: conf[key] for key in hidden}


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
