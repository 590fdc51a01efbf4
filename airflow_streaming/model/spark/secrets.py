"""
Detection of secrets: names by their words, texts by shapes.

A name is split into words, so ``sharedKey``, ``shared.key`` and ``SHARED_KEY`` are one. The tables below
say which words make a name secret. A text is read once from left to right: a secret name with a sign or
a quote behind it hides its value, and so does the shape of a token, a login or a hook's address. Spark's
own pages take a pattern instead of a function; it is made from the same tables.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

REDACTED: Final = "(redacted)"

# Of names. All words are in small letters.
_FOREIGN: Final = (
    *(
        "adgangskode",
        "contrasena",
        "haslo",
        "heslo",
        "jelszo",
        "kennwort",
        "losenord",
        "motdepasse",
    ),
    *("parool", "passord", "passwort", "salasana", "senha", "sifre", "wachtwoord", "пароль"),
    *("密码", "密碼", "ハスワート", "비밀번호"),
)
"""Words for a password in other languages, as ``_plain_letters`` returns them."""
_STROKES: Final = str.maketrans("łŁıøØ", "lLioO")
"""Letters that Unicode does not take apart."""
_ANYWHERE: Final = frozenset(
    {
        *_FOREIGN,
        *("password", "passwords", "passwd", "passphrase", "passcode", "pwd", "psk", "jaas", "sas"),
        *("secret", "secrets", "token", "tokens", "credential", "credentials", "creds", "cred"),
        *(
            "webhook",
            "webhooks",
            "pgpass",
            "bindpw",
            "rootpw",
            "storepass",
            "keypass",
            "trustpass",
            "userpass",
        ),
        *("adminpass", "dbpass", "jsessionid", "phpsessid", "rootpass", "sessid", "smtppass"),
        *("dbpw", "passw", "pswd", "pword", "pwrd", "secretid"),
    }
)
"""Words that make a name secret at any position."""
_LAST: Final = frozenset(
    {
        *("auth", "authorization", "bearer", "cookie", "dek", "dsn", "hmac", "jwt", "kek", "otp"),
        *("mnemonic", "pass", "pat", "pw", "sig", "signature", "totp"),
    }
)
"""Words that make a name secret as its last one."""
_KEYS: Final = frozenset(
    {
        *("access", "account", "aes", "api", "app", "application", "auth", "cipher", "client"),
        *("decryption", "dek", "deploy", "encrypt", "encryption", "fernet", "footer", "function"),
        *(
            "genie",
            "hmac",
            "integration",
            "keystore",
            "kms",
            "opsgenie",
            "unseal",
            "license",
            "master",
            "pem",
            "private",
            "psk",
            "recovery",
        ),
        *("rsa", "secret", "server", "service", "session", "shared", "signing", "ssh", "ssl"),
        *("storage", "subscription", "symmetric", "tls", "wrapping"),
        *("crypto", "enc", "functions", "unlock"),
        # Vendors whose keys are named after them.
        *(
            "algolia",
            "anthropic",
            "aws",
            "azure",
            "cohere",
            "datadog",
            "gemini",
            "groq",
            "huggingface",
        ),
        *("kaggle", "mapbox", "mistral", "newrelic", "openai", "sendgrid", "stripe", "twilio"),
    }
)
"""Words that make a ``key`` behind them secret."""
_PAIRS: Final = frozenset(
    {
        *(("auth", "param"), ("auth", "params"), ("basic", "auth"), ("bearer", "auth")),
        *(
            ("connection", "string"),
            ("identified", "by"),
            ("key", "pem"),
            ("oauthbearer", "config"),
        ),
        *(("otel", "headers"), ("otlp", "headers"), ("plugin", "params"), ("web", "hook")),
        *(("de", "passe"), ("user", "info")),
        *(("argon", "pepper"), ("backup", "code"), ("backup", "codes"), ("card", "pin")),
        *(("client", "assertion"), ("encryption", "salt"), ("key", "material")),
        *(("keytab", "base"), ("keytab", "content"), ("nkey", "seed"), ("otp", "seed")),
        *(
            ("mfa", "code"),
            ("pin", "code"),
            ("recovery", "code"),
            ("recovery", "codes"),
            ("seed", "phrase"),
        ),
        *(("pass", "word"), ("snmp", "community"), ("totp", "seed"), ("unlock", "code")),
        ("verification", "code"),
    }
)
"""Two words that make a name secret together."""
_ENDINGS: Final = (
    *("password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "secretkey"),
    *("privatekey", "credential", "credentials"),
)
"""The same words, when they are written into one with others: ``dbpassword``."""
_ABOUT: Final = frozenset(
    {
        *("alias", "bits", "count", "dir", "directory", "enabled", "expiry", "file", "interval"),
        *(
            "length",
            "lifetime",
            "location",
            "mechanism",
            "on",
            "path",
            "policy",
            "rate",
            "required",
        ),
        *("retries", "seconds", "size", "timeout", "ttl", "type", "version"),
    }
)
"""Last words of names that say something about a secret, and do not give it."""
_COUNTS: Final = frozenset(
    {"completion", "input", "limit", "max", "min", "num", "output", "per", "prompt", "total"}
)
"""Words of names that say how many tokens there are."""
_OF_DATA: Final = frozenset(
    {
        *("bucket", "business", "cache", "cluster", "composite", "dedup", "dedupe", "distribution"),
        *("foreign", "group", "grouping", "hash", "join", "map", "merge", "message", "natural"),
        *(
            "object",
            "order",
            "partition",
            "primary",
            "range",
            "record",
            "routing",
            "row",
            "shuffle",
            "sort",
        ),
        *("state", "surrogate", "unique", "value", "watermark", "window"),
    }
)
"""Words whose ``.key`` is one of rows."""
_KEY: Final = frozenset({"key", "keys"})
_PLACES: Final = frozenset({"PWD", "OLDPWD", "GOOGLE_APPLICATION_CREDENTIALS"})
"""Variables that name a folder or a file."""
_OF_PARSERS: Final = frozenset(
    {"unexpected", "unrecognized", "expecting", "mismatched", "extraneous"}
)
"""Words in front of a token of a language."""
_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W\d_A-Za-z]+")
_STORES: Final = {("key", "store"): "keystore", ("trust", "store"): "truststore"}

# Patterns of texts. Each pattern tests its front first and bounds all lengths, so the time is linear.
_NAME: Final = (
    r"(?:(?<![\w.$-])(?P<lead>[A-Za-z]{2,20})[ ]{1,2})?(?<![\w.$-])(?P<name>[\w.$-]{1,160}+)"
)
_SIGN: Final = (
    r"(?P<sign>\\{0,7}['\"]?\]?\s{0,4}(?:(?:is|was|provided|supplied)\s{0,2})?(?:=>|->|={1,3}|:{1,2}=?)"
    r"(?:(?:[ \t]{1,4}[|>][+-]?)?[ \t]{0,4}\r?\n[ \t]{0,40}(?:-[ ]{1,4})?|\s{0,4})|\((?=\\?['\"])|\\?['\"]\s{0,4},\s{0,4}(?=\\?['\"])"
    r"|</name>\s{0,9}<value>)"
)
_LOOSE: Final = r"(?P<loose>\s{1,4}(?:(?:is|are|was)\s{1,4})?)"
_GIVEN: Final = re.compile(rf"{_NAME}(?:{_SIGN}|{_LOOSE}(?=\S))")
_QUOTED: Final = (
    r"""'(?:[^'\\]|\\.){0,2000}'|"(?:[^"\\]|\\.){0,2000}"|\\{1,7}"[^"\\]{0,2000}\\{1,7}\""""
)
_VALUE: Final = re.compile(
    rf"(?P<whole>\{{[^{{}}\n]{{0,2000}}\}})|(?P<wrap>[\[{{(]{{0,2}}(?:SecretStr\()?)(?:(?P<quoted>{_QUOTED})|(?P<bare>[^\s<]+))"
)
_VALUE_FOR: Final = re.compile(
    r"\b([Vv]alue\s{1,4})(\S{1,400})(?=\s{1,4}for\s{1,4}(?:the\s{1,4})?"
    r"(?:config(?:uration)?|option|param(?:eter)?|property|setting)\s{1,4}['\"]?([\w.$-]{1,160}))"
)
"""The errors of Kafka and of Java's settings, which give the value before its name."""
_ALONE: Final = re.compile(rf"(?P<lead>(?!))?(?P<name>[A-Za-z]{{2,20}}){_LOOSE}(?=\S)")
"""A secret name in front of a word that may be a name itself."""
_BREAK: Final = r"\\?(?:\r?\n|\\r\\n|\\n)[ \t]{0,8}"
_BROKEN: Final = re.compile(
    rf"(?<![\w.$-])(?P<front>[\w.$-]{{1,160}}+){_BREAK}(?P<back>[\w.$-]{{1,80}}+){_SIGN}"
)
"""A name that a line break has cut in two."""
_ELEMENT: Final = re.compile(
    r"(<(?:[\w-]{1,40}:)?([\w.-]{1,160})(?:\s[^<>]{0,200})?>)[^<>]{1,2000}(?=</)"
)
"""An element of XML with nothing but a text in it."""
_BLOCK: Final = re.compile(
    r"(?m)^(?P<head>(?P<indent>[ \t]{0,40})(?:-[ ])?['\"]?(?P<name>[\w.$-]{1,160}+)['\"]?:[ \t]{1,4}"
    r"[|>][+-]?\d?[ \t]{0,4}\r?\n)(?:(?P=indent)[ \t]{1,40}[^\n]{1,2000}(?:\n|\Z)){1,60}"
)
"""A text of several lines in YAML."""
_SCHEME: Final = re.compile(
    r"[\['\"]{0,4}digest\s{1,4}(?:[\w-]{1,30}=(?:\"[^\"\n]{0,400}\"|[^\s,\"]{1,400}),?[ ]{0,2}){1,20}"
    r"|[\['\"]{0,4}aws4[\w-]{0,20}\s{1,4}(?:\w{1,30}=[^\s,]{1,400},?[ ]{0,2}){1,6}"
    r"|[\['\"]{0,4}(?:apikey|aws4[\w-]{0,20}|basic|bearer|digest|geniekey|negotiate|ntlm|sharedkey|splunk"
    r"|token)\s{1,4}\S+",
    re.IGNORECASE,
)
"""Content of an HTTP header: a scheme and its secret are two words."""
_RANDOM: Final = re.compile(r"(?=[^\d]{0,60}\d)(?=[^A-Za-z]{0,60}[A-Za-z])['\"]?\S{5,}")
"""A word with letters and digits: no word of a sentence."""
_WEAK: Final = frozenset(
    {*("secret", "secrets", "token", "tokens", "key", "credential", "credentials"), *_LAST}
)
"""Last words of names that a sentence uses without giving their value."""
_JAVA_CLASS: Final = re.compile(r"(?:[a-z]\w*\.)+[A-Z]\w*(?:\s*,\s*(?:[a-z]\w*\.)+[A-Z]\w*)*")
_NAMES_A_CLASS: Final = re.compile(r"(?:provider|class|impl|factory)s?$", re.IGNORECASE)
KNOWN_TOKEN: Final = re.compile(
    r"\b(?:gh[oprsu]_\w{20,200}|github_pat_\w{20,200}|gl[a-z]{2,5}-[\w-]{20,200}|glsa_\w{30,60}"
    r"|xox[abeprs]-[\w-]{10,200}|xapp-[\w-]{10,200}|A(?:KI|SI)A[0-9A-Z]{16}\b|AIza[\w-]{35}"
    r"|ya29\.[\w-]{20,400}|GOCSPX-[\w-]{20,60}|hv[bs]\.[\w-]{20,200}|dapi[\w-]{32,60}"
    r"|hf_[A-Za-z0-9]{30,60}|npm_[A-Za-z0-9]{30,60}|pypi-AgE[\w-]{20,300}|dckr_pat_[\w-]{20,60}"
    r"|do[opr]_v1_[0-9a-f]{64}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,200}|sk-(?=[\w-]{0,60}\d)[\w-]{20,300}"
    r"|SG\.[\w-]{16,60}\.[\w-]{16,80}|shp(?:at|ca|pa|ss)_[0-9a-f]{32}|ATATT3[\w=-]{20,300}"
    r"|whsec_[\w+/=-]{20,200}|lin_api_\w{30,60}|eyJrIjoi[\w=-]{20,400}|AGE-SECRET-KEY-1[0-9A-Z]{50,60}|eyJ[\w-]{10,4000}\.[\w-]{1,4000}\.[\w-]{0,4000})"
    r"|(?<![\d:.])\d{8,10}:[\w-]{33,40}(?![\w-])|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{86}=="
    r"|(?<![\w~.-])[\w.-]{3}\dQ~[\w~.-]{31,40}"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[^-]{0,20000}(?:-----END [A-Z ]{0,40}PRIVATE KEY-----)?"
)
"""
Secrets that are known by their own form: of GitHub, GitLab, Grafana, Slack, AWS, Google, Vault,
Databricks, Hugging Face, npm, PyPI, Docker, DigitalOcean, Stripe, OpenAI and Anthropic, SendGrid,
Shopify, Atlassian, Linear, Svix, Entra, age and Telegram's bots, JSON web tokens, keys of Azure's storage, private keys.
"""
_USER_INFO: Final = re.compile(r"(://[^/\s:@]{0,200}:)[^@\s]{0,400}@(?:[^\s/@]{1,200}@){0,9}")
_WEB_USER: Final = re.compile(r"((?:https?|nats)://)[^/\s:@]{1,400}(?=@)", re.IGNORECASE)
"""In the address of a web page a name without a password is a token; elsewhere it is a container."""
_ORACLE: Final = re.compile(
    r"(jdbc:oracle:[a-z0-9]{1,8}:[^/\s@]{1,200}/)(?:\"[^\"\s]{1,400}\"|[^@\s\"]{1,400})(?=@)"
)
"""A user and a password as Oracle's thin driver takes them."""
# The front is tested first, so a long text without spaces costs one test.
_LOGIN: Final = re.compile(
    r"((?<![^\s;'\"=(\[{])(?!(?:arn|data|file|jar|mailto|npm|pkg|sips?|ssh|urn|xmpp):)"
    r"[A-Za-z_][\w.-]{0,60}:)(?!\d{1,9}@)[^\s:@/,;'\"]{1,200}"
    r"(?=@(?!sha\d{3}:)(?:[A-Za-z0-9][\w.-]{0,250}(?::\d{1,5}(?![\w.])|/|$)|[A-Za-z0-9][\w-]{0,60}\.[\w.-]{1,190}[\s'\"]))"
)
"""A user and a password in front of a host, without a scheme: ``user:password@host:5432``."""
_HOOK: Final = re.compile(
    r"((?://hooks\.[\w.-]{1,100}/(?:services/)?|/api/webhooks/|webhook\.office\.com/webhookb2/"
    r"|api\.telegram\.org/bot))[^\s'\"]+"
)
"""The address of a webhook: who knows it may write."""
_HEADER: Final = re.compile(
    r"((?<![A-Za-z])(?:[Bb]earer|BEARER)\s{1,4})(?=[^\d\s]{0,200}\d)[\w.~+/-]{8,4000}=*"
    r"|((?<![A-Za-z])(?:[Bb]asic|BASIC)\s{1,4})(?=[^\s=\d]{0,200}[\d=])(?=[^A-Z\s]{0,200}[A-Z])[A-Za-z0-9+/]{8,4000}=*"
    r"|((?<![A-Za-z])[Tt]oken\s{1,4})[0-9a-f]{20,200}\b"
)
_ARGUMENT: Final = re.compile(
    r"((?<![\w-])curl\b[^\n|;]{0,200}?[\s'\"](?:-u|--user)(?:\s{1,4}|=|['\"],\s{0,4})['\"]?[\w.@-]{1,100}:)[^\s'\"]+"
    r"|((?<![\w-])mysql(?:dump|admin)?\b[^\n|;]{0,200}?\s-p)[^\s'\"]+"
    r"|((?<![\w-])(?:az|docker|helm|nerdctl|oc|podman|skopeo)\b[^\n|;]{0,80}?\slogin\b[^\n|;]{0,200}?\s-p\s{1,4})\S+"
    r"|((?<![\w-])vault\s{1,4}login\s{1,4})(?![\s-])(?=\D{0,60}\d)[^\s=]+(?!\S)"
    r"|((?<![\w-])sshpass\s{1,4}-p\s{0,4})\S+"
    r"|((?<![\w-])redis-cli\b[^\n|;]{0,200}?\s-a\s{1,4})\S+"
    r"|((?<![\w-])[Pp]ass(?:word|phrase) for [^\s:]{1,200}:[ ]{1,4})\S+"
)
"""Programs whose options for a password have one letter."""
_LOGINS: Final = (_ORACLE, _LOGIN)
_SHAPES: Final = (KNOWN_TOKEN, _HEADER, _HOOK, _ARGUMENT, *_LOGINS, _USER_INFO, _WEB_USER)
_QUERY: Final = re.compile(r"(://[^\s?]*)\?(\S+)")
_JOINT: Final = "[ ._-]?"
_SHORT: Final = 400
"""Characters of a text whose mask is kept: thousands of streams have the same reason."""
SECRET_NAME: Final = (
    rf"(?i:(?<!unexpected )(?<!unrecognized )(?:{'|'.join(sorted(filter(str.isascii, _ANYWHERE - {'cred', 'psk', 'pwd', 'sas'})))})"
    rf"|(?:{'|'.join(sorted(_KEYS))}){_JOINT}keys?(?!size|store|length)|encryption\.[\w.]{{0,40}}keys?$"
    rf"|{'|'.join(sorted(_JOINT.join(pair) for pair in _PAIRS))}"
    rf"|(?<![a-z])(?:{'|'.join(sorted(_LAST - {'sig', 'signature'} | {'cred', 'psk', 'pwd'}))})(?=['\"]?\s*[=:]|$)"
    rf"|(?<=[a-z])(?-i:{'|'.join(sorted(word.title() for word in _LAST | {'cred', 'psk', 'pwd'}))})(?=\s*[=:]|$)"
    r"|(?:^|[?&._-])sas(?:[._=-]|$)|[?&._-]sig(?:nature)?(?=\s*[=:]|$)|://hooks\.)"
)
"""The tables of names as one pattern, for Spark: Java reads it as Python does."""
SPARK_REDACTION: Final = "|".join(
    [
        SECRET_NAME,
        *(f"(?:{shape.pattern})" for shape in (*_LOGINS, _USER_INFO, _WEB_USER)),
        KNOWN_TOKEN.pattern,
    ]
)
"""Pattern of ``spark.redaction.regex``: names, passwords in URLs and known tokens."""


def _plain_letters(name: str) -> str:
    """Return a name without accents and without the width of its letters."""
    if name.isascii():
        return name
    letters = unicodedata.normalize("NFKD", name.translate(_STROKES))
    kept = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", kept)


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in small letters, whichever way they are joined."""
    words = [word.lower() for word in _WORD.findall(_plain_letters(name))]
    for at in range(len(words) - 1, 0, -1):
        if joined := _STORES.get((words[at - 1], words[at])):
            words[at - 1 : at + 1] = [joined]
    return tuple(words)


def is_secret_name(name: str) -> bool:
    """Tell whether the value of a setting, argument or field of this name is secret."""
    return _is_secret_name(name[-400:], name in _PLACES)


# Every word before a sign is judged, and the texts of thousands of streams have the same words.
@lru_cache(maxsize=4096)
def _is_secret_name(name: str, is_place: bool) -> bool:
    words = words_of(name)
    if not words or words[-1] in _ABOUT or is_place:
        return False
    secret = [word for word in words if word in _ANYWHERE or word.endswith(_ENDINGS)]
    if secret and not (_is_of_tokens(secret) and not _COUNTS.isdisjoint(words)):
        return True
    pairs = set(pairwise(words))
    if words[-1] in _LAST or not _PAIRS.isdisjoint(pairs):
        return True
    if any(one in _KEYS and key in _KEY for one, key in pairs):
        return True
    if "encryption" in words and not _KEY.isdisjoint(words):
        return True
    # A setting called ``.key`` is one, unless it is of rows.
    return name.endswith(".key") and len(words) > 1 and words[-2] not in _OF_DATA


def _is_of_tokens(words: list[str]) -> bool:
    return all(word.endswith(("token", "tokens")) for word in words)


@dataclass(frozen=True, slots=True)
class Given:
    """
    A secret name in a text, with its value.

    :param start: Where the value begins, with its quotes.
    """

    name: str
    value: str
    start: int
    end: int


def given_in(text: str) -> Iterator[Given]:
    """Yield every secret that a text gives by its name, from left to right."""
    at = 0
    while (found := _GIVEN.search(text, at)) is not None:
        at = found.end()
        name = _secret_name(text, found)
        if name is None:
            # The second of two words may be the first of the next two.
            at = found.end("lead") if found["lead"] else found.end("name")
            alone = _ALONE.match(text, found.start("lead")) if found["lead"] else None
            if alone is None or (given := _given(text, alone, alone["name"])) is None:
                continue
            yield given
            at = given.end
            continue
        if (given := _given(text, found, name)) is not None:
            yield given
            at = given.end


def _given(text: str, found: re.Match[str], name: str) -> Given | None:
    """Return the secret behind a name; ``None`` where none stands there, or the name is not secret."""
    if not is_secret_name(name):
        return None
    at, loose = found.end(), found.groupdict().get("loose") is not None
    value = _SCHEME.match(text, at) if words_of(name)[-1] in _LAST else None
    value = value or _VALUE.match(text, at)
    if value is None or _is_plain(name, value, loose=loose):
        return None
    given = value.groupdict()
    inner = given.get("quoted") or given.get("bare") or given.get("whole") or value[0]
    return Given(name, inner.strip("\\'\""), value.start(), value.end())


def _broken_in(text: str) -> Iterator[Given]:
    """Yield every secret whose name a line break has cut in two."""
    at = 0
    while (found := _BROKEN.search(text, at)) is not None:
        # The second line of one name may be the first of the next.
        at = found.start("back")
        name = f"{found['front'].rstrip('-')}{found['back']}"
        if not is_secret_name(found["back"]) and (given := _given(text, found, name)) is not None:
            yield given
            at = given.end


def _secret_name(text: str, found: re.Match[str]) -> str | None:
    """Return the secret name in front of a sign, which may be two words; ``None`` for another."""
    lead, name = found["lead"] or "", found["name"]
    if _word_before(text, found.start("name")) in _OF_PARSERS:
        return None
    both = f"{lead}_{name}" if lead else name
    if words_of(name) in {("sig",), ("signature",)} and not text.startswith(
        ("?", "&"), max(0, found.start("name") - 1)
    ):
        return None
    if name in {"key", "code"} and text.startswith(("?", "&"), max(0, found.start("name") - 1)):
        return f"secret_{name}"
    if name == "PWD" and text.startswith(";", max(0, found.start("name") - 1)):
        return "pwd"
    if lead and is_secret_name(both) and words_of(both)[-2:] != words_of(name)[-2:]:
        return both
    return name if is_secret_name(name) else None


def _word_before(text: str, at: int) -> str:
    return text[max(0, at - 24) : at].rstrip().rpartition(" ")[2].lower()


def _is_plain(name: str, value: re.Match[str], *, loose: bool) -> bool:
    """Tell whether a value is a count, a class or a word of a sentence."""
    text = value[0].strip("'\",;.)")
    if words_of(name)[-1] == "tokens" and text.isdigit():
        return True
    if names_class(name, text):
        return True
    if value[0].lstrip("'\"\\").startswith(REDACTED):
        return True
    if not loose:
        return False
    if name.startswith("--"):
        return text.startswith("-")
    is_quoted = value.groupdict().get("quoted") is not None
    if is_quoted and words_of(name)[-1] not in _WEAK:
        return False
    return _RANDOM.match(value[0]) is None


def mask_text(text: str) -> str:
    """Return a text with every secret in it that its name or its shape gives away as a mark."""
    return _masked_again(text) if len(text) <= _SHORT else _masked(text)


@lru_cache(maxsize=2048)
def _masked_again(text: str) -> str:
    return _masked(text)


def _masked(text: str) -> str:
    """Return a masked text; only colors and signs that hide a secret are removed."""
    from airflow_streaming.model.spark.secret_layouts import plain_layout  # not at dag parse

    plain = plain_layout(text)
    masked = _masked_as_written(text)
    if plain == text or plain_layout(masked) == (shown := _masked_as_written(plain)):
        return masked
    return shown


def _masked_as_written(text: str) -> str:
    from airflow_streaming.model.spark.secret_layouts import mask_layouts  # not at dag parse

    text = mask_layouts(mask_shapes(text), is_secret_name, REDACTED)
    text = _VALUE_FOR.sub(_masked_value, text)
    text = _BLOCK.sub(_masked_block, _ELEMENT.sub(_masked_element, text))
    return _without(_without(text, _broken_in), given_in)


def _masked_value(found: re.Match[str]) -> str:
    return f"{found[1]}{REDACTED}" if is_secret_name(found[3]) else found[0]


def _masked_element(found: re.Match[str]) -> str:
    return f"{found[1]}{REDACTED}" if is_secret_name(found[2]) else found[0]


def _masked_block(found: re.Match[str]) -> str:
    if not is_secret_name(found["name"]):
        # The text may be YAML itself; each level is indented further.
        return found["head"] + _BLOCK.sub(_masked_block, found[0].removeprefix(found["head"]))
    end = "\n" if found[0].endswith("\n") else ""
    return f"{found['head']}{found['indent']}  {REDACTED}{end}"


def mask_shapes(text: str) -> str:
    """Return a text with everything as a mark that is a secret by its shape, whatever its name."""
    for shape in _SHAPES:
        text = shape.sub(_behind, text)
    return text


def _behind(found: re.Match[str]) -> str:
    front = next((group for group in found.groups() if group is not None), "")
    return f"{front}{REDACTED}{'@' if found.re is _USER_INFO else ''}"


def _without(text: str, secrets_in: Callable[[str], Iterator[Given]]) -> str:
    parts, at = [], 0
    for given in secrets_in(text):
        parts += [text[at : given.start], REDACTED]
        at = given.end
    return "".join([*parts, text[at:]]) if parts else text


def is_secret(text: str) -> bool:
    """Tell whether a value holds a secret, independent of its name."""
    return mask_text(text) != text


def names_class(key: str, text: str) -> bool:
    """Tell whether a value names a Java class, as in ``fs.s3a.aws.credentials.provider``."""
    return _NAMES_A_CLASS.search(key) is not None and is_class(text)


def is_class(text: str) -> bool:
    """Tell whether a text is the name of a Java class, or a list of them."""
    return _JAVA_CLASS.fullmatch(text) is not None


def mask_password(text: str) -> str:
    """Return a text with the password of every URI and login in it as a mark."""
    for shape in (*_LOGINS, _USER_INFO, _WEB_USER):
        text = shape.sub(_behind, text)
    return text


def mask_uri(text: str) -> str:
    """Return a text with the secrets of every URI in it, its query's too, as a mark."""
    return KNOWN_TOKEN.sub(REDACTED, _QUERY.sub(_masked_query, mask_password(text)))


def _masked_query(found: re.Match[str]) -> str:
    return f"{found[1]}?{REDACTED}" if is_secret(f"?{found[2]}") else found[0]


def shaped_secrets(text: str) -> Iterator[str]:
    for shape in _SHAPES:
        for found in shape.finditer(text):
            front = next((group for group in found.groups() if group is not None), "")
            yield found[0].removeprefix(front).removesuffix("@")
