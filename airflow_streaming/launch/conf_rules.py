"""
Rules for settings of a stream's configuration that affect its own launch.

Some settings are read before the driver exists: by ``spark-submit``, by an operator, or by the
JVM's start. Secret configuration reaches a driver on most clusters only after its pod or process
has started, so a secret in one of those would be missing silently. Other settings belong to the
provider, which finds drivers by them. Conflicting settings are refused here, before any resource is
created.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_streaming.exceptions import SpecError
from airflow_streaming.launch.registry import ON_KUBERNETES
from airflow_streaming.model.spark.conf import PY_FILES, SHIPPED
from airflow_streaming.model.spark.launchers import STANDALONE, YARN
from airflow_streaming.model.spark.secret_conf import redact
from airflow_streaming.model.spark.secrets import REDACTED, mask_uri

_IMAGE: Final = "spark.kubernetes.container.image"
_IMAGES: Final = (
    "spark.kubernetes.driver.container.image",
    "spark.kubernetes.executor.container.image",
)

_ANYWHERE: Final[tuple[str, ...]] = ()
_ITS_EPOCH: Final = "each launch has a name of its own, by which its driver is found again"
_NO_WAIT: Final = "a driver outlives the task that submits it"
_ONE_RESTARTER: Final = "only the stream's restart policy starts a driver again"

_ENVIRONMENT: Final[Mapping[str, tuple[str, ...]]] = {
    YARN: ("spark.yarn.appMasterEnv.",),
    **dict.fromkeys(
        ON_KUBERNETES,
        ("spark.kubernetes.driverEnv.", "spark.kubernetes.driver.secretKeyRef."),
    ),
}
"""Prefixes of the keys that give the driver a variable, as the stream's ``env`` does."""

_SUBMITTED: Final = "is read while the driver is submitted, where others can read it"
_REMEDIES: Final = (
    (
        re.compile(r"spark\.executorEnv\..*"),
        "is written into the pods of the executors, where others can read it",
        (
            "Name a Secret of your own with spark.kubernetes.executor.secretKeyRef.VARIABLE=SECRET:KEY."
        ),
    ),
    (
        re.compile(r"spark\.kubernetes\.driverEnv\..*"),
        _SUBMITTED,
        (
            "Give the variable in the stream's env, which goes into a Kubernetes Secret, or name a Secret "
            "of your own with spark.kubernetes.driver.secretKeyRef.VARIABLE=SECRET:KEY."
        ),
    ),
    (
        re.compile(r"spark\.kubernetes\.authenticate\..*"),
        _SUBMITTED,
        (
            "Give the token of a submission to the Kubernetes connection that kubernetes-conn-id names, and "
            "a driver its service account, or a mounted file "
            "(spark.kubernetes.authenticate.driver.mounted.oauthTokenFile)."
        ),
    ),
    (
        re.compile(r"spark\.kubernetes\..*"),
        _SUBMITTED,
        (
            "Put the secret into a Kubernetes Secret and name that "
            "(spark.kubernetes.driver.secrets.SECRET=PATH, or ...driver.secretKeyRef.VARIABLE=SECRET:KEY)."
        ),
    ),
)
_SHIPPED_REMEDY: Final = (
    re.compile(r"spark\.(?:jars(?:\..*)?|files|archives|submit\.pyFiles)"),
    _SUBMITTED,
    (
        "Name a place whose address has no secret in it, or put the files into the image or on the cluster's "
        "hosts."
    ),
)
_EXPOSED: Final = {
    STANDALONE: (_SHIPPED_REMEDY,),
    **dict.fromkeys(ON_KUBERNETES, (*_REMEDIES, _SHIPPED_REMEDY)),
}
"""
Settings that others can read, or that are read before secret configuration has arrived, by
launcher: a pattern of keys, the effect, and the remedy. ``local`` and ``yarn`` hand all of it to
``spark-submit`` in a private file. Spark writes ``spark.executorEnv.*`` into the executors' pods as
it is (its ``BasicExecutorFeatureStep``).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSite:
    """
    Where a driver is going to be launched.

    :param master: Of the Spark connection; empty where it is not known.
    :param namespace: Of its pods, where it has any.
    """

    launcher: str
    master: str = ""
    namespace: str = ""
    image: str = ""


@dataclass(frozen=True, slots=True)
class DecidedSetting:
    """
    A setting that the provider sets.

    :param launchers: Launchers with which it does; empty for all.
    :param value: Its value, ``{master}``, ``{namespace}`` or ``{image}`` of the site; empty where
        it differs in each launch, so that the user cannot set it.
    :param source: The origin of the value, in words for a refusal.
    """

    launchers: Collection[str]
    key: str
    value: str
    source: str


DECIDED: Final = (
    DecidedSetting(_ANYWHERE, "spark.master", "{master}", "the Spark connection names it"),
    DecidedSetting(
        ON_KUBERNETES,
        "spark.kubernetes.namespace",
        "{namespace}",
        "the extra 'namespace' of the Spark connection names it",
    ),
    DecidedSetting(ON_KUBERNETES, "spark.kubernetes.driver.pod.name", "", _ITS_EPOCH),
    DecidedSetting(ON_KUBERNETES, "spark.kubernetes.executor.podNamePrefix", "", _ITS_EPOCH),
    DecidedSetting(ON_KUBERNETES, _IMAGE, "{image}", "the stream's runtime has an image"),
    DecidedSetting(
        ON_KUBERNETES, "spark.kubernetes.submission.waitAppCompletion", "false", _NO_WAIT
    ),
    DecidedSetting(_ANYWHERE, "spark.driver.supervise", "false", _ONE_RESTARTER),
    DecidedSetting((YARN,), "spark.yarn.submit.waitAppCompletion", "false", _NO_WAIT),
    DecidedSetting((YARN,), "spark.yarn.maxAppAttempts", "1", _ONE_RESTARTER),
)
"""Beside ``spark.app.name`` and ``spark.submit.deployMode``, which no spec may have at all."""


def check_conf(
    stream: str, site: LaunchSite, conf: Mapping[str, str], environment: Collection[str] = ()
) -> None:
    """
    Check a whole configuration against the place where its driver is going to be launched.

    :param conf: With its secrets.
    :param environment: Names of the stream's ``env``.
    :raises SpecError: a setting would be overridden, given twice or missing where it is read; or the
        driver would have no image. No value that may be secret is repeated.
    """
    shown = redact(conf)
    for refusal in (
        *_contradictions(site, shown),
        *_twice(site, conf, environment),
        *_exposed(site, shown),
        *_without_image(site, conf),
    ):
        raise SpecError(f"Stream {stream!r} cannot be launched by {site.launcher!r}: {refusal}")


def _contradictions(site: LaunchSite, conf: Mapping[str, str]) -> Iterator[str]:
    known = {"master": site.master, "namespace": site.namespace, "image": site.image}
    for one in DECIDED:
        given, decided = conf.get(one.key), one.value.format_map(known)
        is_free = one.launchers and site.launcher not in one.launchers
        if is_free or given is None or (one.value and not decided):
            continue
        is_same = given.strip() == decided or given.strip().lower() == decided == "false"
        if not (decided and is_same):
            instead = f"{decided!r} is used" if decided else "the provider sets it"
            yield (
                f"its conf has {one.key}={given!r}, and {instead}, because {one.source}. Remove the key."
            )


def _twice(
    site: LaunchSite, conf: Mapping[str, str], environment: Collection[str]
) -> Iterator[str]:
    for prefix in _ENVIRONMENT.get(site.launcher, ()):
        for name in (name for name in environment if f"{prefix}{name}" in conf):
            yield f"its env and {prefix}{name} in its conf both give {name}. Remove one of them."


def _exposed(site: LaunchSite, shown: Mapping[str, str]) -> Iterator[str]:
    for key in (key for key, value in shown.items() if value == REDACTED):
        for pattern, becomes, remedy in _EXPOSED.get(site.launcher, ()):
            if pattern.fullmatch(key):
                yield f"{key} in its conf holds a secret, and {becomes}. {remedy}"
                break


def _without_image(site: LaunchSite, conf: Mapping[str, str]) -> Iterator[str]:
    if site.launcher not in ON_KUBERNETES or site.image or conf.get(_IMAGE):
        return
    if not all(conf.get(key) for key in _IMAGES):
        yield (
            "no container image is named. Give its runtime an 'image' under [streaming] runtimes, or "
            f"{_IMAGE} in the stream's conf."
        )


def join_shipped(
    conf: Mapping[str, str], lists: Mapping[str, Sequence[str]], archive: str
) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """
    Return a configuration and the stream's lists so that each file is in one of them only.

    Of an option of ``spark-submit`` and its key in the configuration only the option counts. So the
    configuration's files are added to the stream's own list. If an address contains a secret, which
    an option would show to every user of the host, the whole list goes into the configuration.

    :param lists: By their names in ``SHIPPED``.
    :param archive: This package for the driver, the first entry of every list of Python files: in
        the configuration it is added here, in an option by the option's writer.
    """
    left, joined = dict(conf), {what: tuple(given) for what, given in lists.items()}
    for what, key in ((what, key) for what, key in SHIPPED.items() if key in conf):
        named = [entry.strip() for entry in left.pop(key).split(",")]
        every = tuple(dict.fromkeys((*joined.get(what, ()), *filter(None, named))))
        if all(mask_uri(entry) == entry for entry in every):
            joined[what] = every
        else:
            front = (archive,) if key == PY_FILES else ()
            joined[what], left[key] = (), ",".join((*front, *every))
    return left, joined
