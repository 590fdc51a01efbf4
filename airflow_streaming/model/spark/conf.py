"""
Spark configuration as a stream gives it: which keys are the user's, and which values are secret.

A value reaches Spark through a private file only. Whatever else shows a configuration, a record, a
log or a terminal, shows it redacted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from airflow_streaming.exceptions import SpecError

REDACTED: Final = "(redacted)"
PRIVATE_CONF: Final = "AIRFLOW_STREAMING_SECRET_CONF"
"""Variable of a cluster driver's environment: a JSON object of the configuration that is secret."""
PRIVATE_CONF_FILE: Final = "AIRFLOW_STREAMING_SECRET_CONF_FILE"
"""The same, as the path of a file with that object."""
DIES_WITH_JVM: Final = "AIRFLOW_STREAMING_DIES_WITH_JVM"
"""Variable of a cluster driver's environment: its Python process must not outlive its JVM."""
PY_FILES: Final = "spark.submit.pyFiles"
SHIPPED: Final[Mapping[str, str]] = {
    "jars": "spark.jars",
    "py_files": PY_FILES,
    "files": "spark.files",
    "packages": "spark.jars.packages",
}
"""The key of each list of a stream's files. Configuration reaches Spark through a private file."""


def shipped_lists(of: Any) -> dict[str, Any]:
    """Return the lists of files that a deployment or a program has, by their names in ``SHIPPED``."""
    return {what: tuple(getattr(of, what)) for what in SHIPPED}


SECRET_KEY: Final = re.compile(
    # What parsers say of a token is no secret.
    r"secret|password|passwd|passphrase|(?<!unexpected )(?<!unrecognized )token|credential|jaas"
    r"|(?:access|account|api|auth|private|encryption|fernet|signing|subscription|licen[cs]e|hmac)"
    r"[ ._-]?key(?!size)"
    r"|(?:master|shared|storage)[._-]key|key[._]pem|keystore\.key$"
    r"|(?:^|[?&._-])sas(?:[._=-]|$)|[?&-]sig(?:nature)?\b|shared[._-]?access[._-]?signature"
    r"|otel\.headers|(?:authorization|cookie|(?<![a-z])jwt)(?=['\"]?\s*[=:]|$)"
    r"|(?<![a-z])bearer(?=[\s=:]|$)|oauthbearer\.config|basic\.auth\.user\.info"
    r"|passcode|pwd(?![a-z])|(?:(?<![a-z])pass|(?-i:[a-z]Pass))(?=\s*[=:]|$)"
    r"|(?<=[._?&;-])auth(?=\s*[=:]|$)|web[._-]?hook|://hooks\."
    r"|(?:(?<=[._-])(?:hmac|(?-i:signature|SIGNATURE))|connection[._-]?string|(?<![a-z])dsn)(?=['\"]?\s*[=:]|$)",
    re.IGNORECASE,
)
"""
Spark's own redaction pattern and more: Spark's misses the keys of Azure (``account.key``, ``sas``),
what Kafka logs in with (``sasl.jaas.config``), signed URLs, ``pass`` and ``pwd``, and the addresses
of webhooks. Like Spark's, it is held against values as well, for options such as
``-Dtrust.password=...``. Java reads it as Python does.
"""
_PARTS: Final = (
    *("secret", "pass", "token", "credential", "jaas", "key", "sas", "sig", "otel.headers"),
    *("auth", "cookie", "jwt", "bearer", "pwd", "hook", "hmac", "dsn", "connection"),
)
"""Of these every name that looks secret has one, in small letters."""
# Bounded, as all that looks behind a name: without an @ every :// would be followed to the end of the text.
_USER_INFO: Final = re.compile(r"(://[^/\s:@]{0,200}):[^@\s]{0,400}@")
_WEB_USER: Final = re.compile(r"(https?://)[^/\s:@]{1,400}@", re.IGNORECASE)
"""In the address of a web page a name without a password is a token; elsewhere it is a container."""
_ORACLE: Final = re.compile(
    r"(jdbc:oracle:[a-z0-9]{1,8}:[^/\s@]{1,200}/)(?:\"[^\"\s]{1,400}\"|[^@\s\"]{1,400})(?=@)"
)
"""A user and a password as Oracle's thin driver takes them."""
# What may stand in front is looked at first: of a long text without spaces nothing else is tried.
_LOGIN: Final = re.compile(
    r"((?<![^\s;'\"=(\[{])(?!(?:arn|data|file|jar|mailto|npm|pkg|sips?|ssh|urn|xmpp):)"
    r"[A-Za-z_][\w.-]{0,60}:)(?!\d{1,9}@)[^\s:@/,;'\"]{1,200}"
    r"(?=@(?!sha\d{3}:)[A-Za-z0-9][\w.-]{0,250}(?::\d{1,5}(?![\w.])|/|$))"
)
"""A user and a password in front of a host, without a scheme: ``user:password@host:5432``."""
KNOWN_TOKEN: Final = re.compile(
    r"\b(?:gh[oprsu]_\w{20,200}|github_pat_\w{20,200}|gl[a-z]{2,5}-[\w-]{20,200}|glsa_\w{30,60}"
    r"|xox[abeprs]-[\w-]{10,200}|xapp-[\w-]{10,200}|A(?:KI|SI)A[0-9A-Z]{16}\b|AIza[\w-]{35}"
    r"|ya29\.[\w-]{20,400}|GOCSPX-[\w-]{20,60}|hv[bs]\.[\w-]{20,200}|dapi[0-9a-f]{32}\b|hf_[A-Za-z]{30,60}"
    r"|npm_[A-Za-z0-9]{36}\b|pypi-[\w-]{50,300}|dckr_pat_[\w-]{20,60}|do[opr]_v1_[0-9a-f]{64}"
    r"|[rs]k_(?:live|test)_[A-Za-z0-9]{16,200}|sk-(?=[\w-]{0,60}\d)[\w-]{20,300}"
    r"|SG\.[\w-]{16,60}\.[\w-]{16,80}|shp(?:at|ca|pa|ss)_[0-9a-f]{32}|ATATT3[\w=-]{20,300}"
    r"|eyJ[\w-]{10,4000}\.[\w-]{1,4000}\.[\w-]{0,4000})"
    r"|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}=="
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
)
"""
Secrets that are known by their own form: of GitHub, GitLab, Grafana, Slack, AWS, Google, Vault,
Databricks, Hugging Face, npm, PyPI, Docker, DigitalOcean, Stripe, OpenAI and Anthropic, SendGrid,
Shopify and Atlassian, JSON web tokens, keys of Azure's storage, private keys.
"""
SPARK_REDACTION: Final = (
    rf"(?i){SECRET_KEY.pattern}|{_USER_INFO.pattern}|{_WEB_USER.pattern}|{_ORACLE.pattern}"
    rf"|{_LOGIN.pattern}|(?-i:{KNOWN_TOKEN.pattern})"
)
"""The same for Spark's own pages, which hold it against keys and values: passwords in URLs, too."""
_PASSWORD: Final = re.compile(
    r"://[^/\s:@]{0,200}:([^@\s]{1,400})@|(?i:https?)://([^/\s:@]{1,400})@"
)
_LOGINS: Final = (_ORACLE, _LOGIN)
"""Of a match all behind its group is the password."""
_GIVEN: Final = re.compile(
    rf"""(?:{SECRET_KEY.pattern})[^\s=:]{{0,80}}\s{{0,4}}[=:]\s{{0,4}}(?:(?:bearer|basic)\s+)?(?:'([^']+)'|"([^"]+)"|([^\s;&,]+))""",
    re.IGNORECASE,
)
_JAVA_CLASS: Final = re.compile(r"(?:[a-z]\w*\.)+[A-Z]\w*(?:\s*,\s*(?:[a-z]\w*\.)+[A-Z]\w*)*")
_NAMES_A_CLASS: Final = re.compile(r"(?:provider|class|impl|factory)s?$", re.IGNORECASE)
_NAMES_A_PLACE: Final = re.compile(
    r"^(?:OLD)?PWD$|^GOOGLE_APPLICATION_CREDENTIALS$|(?:file|path|dir|directory|location)$",
    re.IGNORECASE,
)
_NAMES_ONLY: Final = re.compile(
    r"spark\.kubernetes\.(?:"
    r"(?:(?:driver|executor)\.)?(?:secrets|secretKeyRef|volumes|label|annotation|service|node\.selector"
    r"|container\.image|pod|scheduler|podTemplate\w+|podNamePrefix)(?:\..+)?"
    r"|kerberos\..+|namespace|context|file\.upload\.path"
    r"|authenticate\.(?:.+\.)?(?:\w+File|serviceAccountName))"
    r"|spark\.(?:kubernetes\.driverEnv|executorEnv|yarn\.appMasterEnv)\."
    r"(?:GOOGLE_APPLICATION_CREDENTIALS|\w*(?:FILE|PATH|DIR|LOCATION))"
    r"|spark\.(?:jars(?:\..+)?|files|archives|submit\.pyFiles|pyspark(?:\.driver)?\.python"
    r"|(?:driver|executor)\.extra(?:Class|Library)Path|kerberos\.keytab|yarn\.(?:archive|jars|dist\..+))"
)
"""
Settings whose values are the names of Kubernetes' objects, environment variables, files and images, or
what a pod shows: whatever word is in them, they are no secret. Spark reads them before it has a driver.
"""
_FREE_TEXT: Final = re.compile(r"\.(?:label|annotation)\.")
_VOLUME_OPTION: Final = re.compile(r"\.volumes\..+\.options\.(.+)")
_SHORTEST_SECRET: Final = 5
"""Characters. What is shorter, as ``true``, stands in too many texts that have nothing to hide."""
_QUERY: Final = re.compile(r"(://[^\s?]*)\?(\S+)")
_OURS: Final = frozenset({"spark.app.name", "spark.submit.deployMode"})
_LOCAL_MASTER: Final = re.compile(r"local\[(\d{1,6})(?:,\s*\d+)?\]", re.ASCII)
_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?![\d.])", re.ASCII)
SparkVersion = tuple[int, int, int]
"""Major, minor and patch number."""


def check_conf_key(key: str) -> str:
    """
    Return a Spark configuration key that the user may set.

    Spark itself takes any text behind ``spark.``. What is refused here could not be told from the value,
    or from the next setting, in a properties file or on a command line; and Airflow fills in templates
    in values only.

    :raises SpecError: for a key that is not Spark's, that cannot be written down, or that the provider
        sets itself.
    """
    if not key.removeprefix("spark.") or not key.startswith("spark."):
        raise SpecError(
            f"{key!r:.200} is not a Spark configuration key; it must begin with 'spark.', and something "
            "must follow."
        )
    if "{{" in key or "{%" in key:
        raise SpecError(
            f"The Spark configuration key {key!r:.200} is a template. Airflow fills in values only: write "
            "the key out, or give the whole conf as a template."
        )
    odd = next((char for char in key if char in " =" or not char.isprintable()), None)
    if odd is not None:
        raise SpecError(
            f"The Spark configuration key {key!r:.200} has {odd!r} in it. Remove it: a key has no blanks, "
            "'=' or control characters."
        )
    if key in _OURS:
        raise SpecError(f"{key!r} is set by the provider. Remove it from the stream's conf.")
    return key


def redact(conf: Mapping[str, Any]) -> dict[str, str]:
    """Return the conf with every value that looks secret, or has a secret key, as a mark."""
    texts = {key: conf_text(value) for key, value in conf.items()}
    return {
        key: text if names_class(key, text) or not _is_to_be_hidden(key, text) else REDACTED
        for key, text in texts.items()
    }


def _is_to_be_hidden(key: str, text: str) -> bool:
    if names_only(key, text):
        return mask_uri(text) != text
    return is_secret_key(key) or is_secret(text)


def names_only(key: str, text: str) -> bool:
    """
    Tell whether a setting refers to things by their names: to a Kubernetes Secret, a file, an image.

    What a label or an annotation says is free text, and may give a secret all the same
    (``password=...``), as the option of a volume does by its own name.
    """
    if _NAMES_ONLY.fullmatch(key) is None:
        return False
    if option := _VOLUME_OPTION.search(key):
        return not is_secret_key(option[1])
    return _FREE_TEXT.search(key) is None or _GIVEN.search(text) is None


_SECRETS: Final = (_USER_INFO, _WEB_USER, *_LOGINS, KNOWN_TOKEN)


def may_name_secret(text: str) -> bool:
    """
    Tell whether a text may have a name in it that looks secret; most have none.

    It takes a hundredth of the time of looking for all of them.
    """
    # Of other alphabets some letters count as ours where capitals do not matter.
    small = text.lower()
    return not text.isascii() or any(part in small for part in _PARTS)


def is_secret_key(text: str) -> bool:
    """Tell whether a text has a name in it that looks secret."""
    return may_name_secret(text) and SECRET_KEY.search(text) is not None


def is_secret(text: str) -> bool:
    """Tell whether a value looks as if it held a secret, whatever it is the value of."""
    return is_secret_key(text) or any(pattern.search(text) for pattern in _SECRETS)


def names_class(key: str, text: str) -> bool:
    """Tell whether a value is the name of a Java class, as that of ``fs.s3a.aws.credentials.provider``."""
    return _NAMES_A_CLASS.search(key) is not None and _JAVA_CLASS.fullmatch(text) is not None


def secret_values(conf: Mapping[str, str], *, all_of: Collection[str] = ()) -> frozenset[str]:
    """
    Return what must not be shown of a configuration or an environment, wherever it is quoted.

    That is the value of every key that looks secret, every line of it, and what stands after such a
    key, or as a password, inside any value.

    :param all_of: Keys whose values are secret whatever they are called.
    """
    found: set[str] = set()
    for key, text in conf.items():
        is_name = names_only(key, text) and key not in all_of
        if key in all_of or not (is_name or _NAMES_A_PLACE.search(key) or not is_secret_key(key)):
            found.update((text, text.strip(), *text.splitlines()))
        has_names = may_name_secret(text) and not (is_name and mask_uri(text) == text)
        for pattern in (_PASSWORD, _GIVEN) if has_names else (_PASSWORD,):
            found.update(value for match in pattern.findall(text) for value in match)
        for pattern in _LOGINS:
            found.update(match[0].removeprefix(match[1]) for match in pattern.finditer(text))
        found.update(KNOWN_TOKEN.findall(text))
    return frozenset(value for value in found if _can_be_hidden(value))


def _can_be_hidden(value: str) -> bool:
    is_word = value == REDACTED or value.isdigit() or _JAVA_CLASS.fullmatch(value) is not None
    return len(value) >= _SHORTEST_SECRET and value.lower() not in _PLAIN and not is_word


_PLAIN: Final = frozenset({"false", "default", "kerberos", "simple"})


def conf_text(value: Any) -> str:
    """Return a conf value as Spark reads it: ``True`` becomes ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def mask_password(text: str) -> str:
    """Return a text with the password of every URI and login in it as a mark."""
    text = mask_logins(text)
    return _WEB_USER.sub(rf"\1{REDACTED}@", _USER_INFO.sub(rf"\1:{REDACTED}@", text))


def mask_logins(text: str) -> str:
    """Return a text with the password of every login that is no URI as a mark."""
    for pattern in _LOGINS:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text


def mask_uri(text: str) -> str:
    """Return a text with the secrets of every URI in it, its query's too, as a mark."""
    return KNOWN_TOKEN.sub(REDACTED, _QUERY.sub(_masked_query, mask_password(text)))


def _masked_query(found: re.Match[str]) -> str:
    return f"{found[1]}?{REDACTED}" if is_secret(f"?{found[2]}") else found[0]


def parse_spark_version(text: str) -> SparkVersion:
    """
    Return the numbers of a Spark version; the patch number may be missing and then is 0.

    :raises SpecError: not a version.
    """
    match = _VERSION.match(text)
    if match is None:
        raise SpecError(f"{text!r:.80} is not a Spark version. Write it as 4.3 or 4.3.0.")
    return int(match[1]), int(match[2]), int(match[3] or 0)


def configured_cores(conf: Mapping[str, str]) -> int | None:
    """Return the cores over all executors that a configuration fixes; ``None`` where it does not."""
    if match := _LOCAL_MASTER.fullmatch(conf.get("spark.master", "")):
        return int(match[1])
    if (most := conf.get("spark.cores.max", "")).isdecimal():
        return int(most)
    executors, each = conf.get("spark.executor.instances", ""), conf.get("spark.executor.cores", "")
    return int(executors) * int(each) if executors.isdecimal() and each.isdecimal() else None


def executors_wanted(conf: Mapping[str, str]) -> int | None:
    """
    Return how many executors a whole configuration of Spark asks for, ``None`` where it does not say.

    With dynamic allocation it is the least that is kept, ``spark.dynamicAllocation.minExecutors``. On
    Kubernetes and YARN Spark's own default is 2; a standalone cluster gives one for each
    ``spark.executor.cores`` of ``spark.cores.max``.
    """
    if conf.get("spark.dynamicAllocation.enabled", "").lower() == "true":
        least = conf.get("spark.dynamicAllocation.minExecutors", "0")
        return int(least) if least.isdecimal() else None
    instances = conf.get("spark.executor.instances", "")
    if instances.isdecimal():
        return int(instances)
    master = conf.get("spark.master", "")
    if master == "yarn" or master.startswith("k8s://"):
        return 2
    most, each = conf.get("spark.cores.max", ""), conf.get("spark.executor.cores", "")
    if most.isdecimal() and each.isdecimal() and int(each):
        return int(most) // int(each)
    return None


def has_executors(master: str) -> bool:
    """Tell whether a master gives executors of their own; in local mode the driver works itself."""
    return not re.match(r"local(\[|$)", master)
