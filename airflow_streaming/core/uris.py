"""
Where a home lies, in the words of fsspec and in the words of Hadoop.

Airflow's side reaches a home through fsspec (``s3://``), the driver through Hadoop's FileSystem
(``s3a://``). The two name the same stores differently; this is the only place that knows.
"""

from __future__ import annotations

import re
from typing import Final

from airflow_streaming.exceptions import SpecError

_LOCAL: Final = frozenset({"", "file", "local"})
_BUCKETS: Final = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "az", "adl", "abfs", "abfss"})
"""Stores whose URI has to name a bucket; ``hdfs:///`` means the default name node."""
_HADOOP_OF: Final = {"s3": "s3a", "gcs": "gs", "az": "abfss", "adl": "abfss"}
_FSSPEC_OF: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}

_USER_INFO: Final = re.compile(r"[^@]*:[^@]*@")
"""Up to any '@', not to the first '/': a secret key may have a '/' in it."""
_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*)?")
_NO_SLASHES: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SHORT: Final = re.compile(r"file:/(?!/)", re.IGNORECASE)


def check_uri(uri: str, what: str) -> str:
    """
    Return a folder's URI in full and without a trailing slash.

    :param uri: An absolute local path or a URI such as ``s3://bucket/streams``, or Hadoop's usual
        ``file:/folder``.
    :param what: What the folder is, for the message.
    :raises SpecError: empty, relative, a root, with ``..``, with credentials, or with a query part.
    """
    uri = in_full(uri)
    scheme, rest = scheme_of(uri), uri.split("://", 1)[-1]
    # First of all, because every later message repeats the URI.
    has_user_info = not uri.startswith("/") and _USER_INFO.match(rest)
    if has_user_info or "?" in uri or "#" in uri:
        raise SpecError(
            f"The {what} may not carry credentials, '?' or '#'. Put credentials in an Airflow "
            "connection or the environment, and give a plain folder here."
        )
    if not uri or uri != uri.strip() or not uri.isprintable():
        raise SpecError(
            f"The {what} {uri!r} is empty, or has spaces around it or characters that cannot be "
            "printed. Give a full path."
        )
    _check_place(uri, scheme, rest, what)
    _check_folders(uri, scheme, rest, what)
    return uri.rstrip("/")


def _check_place(uri: str, scheme: str, rest: str, what: str) -> None:
    if lacks_slashes(uri):
        raise SpecError(
            f"The {what} {uri!r} lacks '//' after its scheme. Write it as in s3://bucket/folder or "
            "file:///folder; a relative path with a colon begins with './'."
        )
    if not _SCHEME.fullmatch(scheme):
        raise SpecError(f"The {what} {uri!r} has '://' in a path. Give a plain path or a URI.")
    if scheme in _LOCAL and not rest.startswith("/"):
        fault = "names a host" if scheme else "is relative"
        raise SpecError(f"The {what} {uri!r} {fault}. Give an absolute path or file:///folder.")
    if scheme in _BUCKETS and rest.startswith("/"):
        raise SpecError(f"The {what} {uri!r} names no bucket. Write {scheme}://bucket/folder.")
    if not rest.strip("/"):
        raise SpecError(f"The {what} {uri!r} is the root of a file system. Give a folder in it.")


def _check_folders(uri: str, scheme: str, rest: str, what: str) -> None:
    folders = rest.strip("/").split("/")
    if ".." in folders:
        raise SpecError(f"The {what} {uri!r} has '..' in it. Give the folder it should mean.")
    # Hadoop drops empty and '.' folders, an object store keeps them: two different places.
    if scheme not in _LOCAL and not {"", "."}.isdisjoint(folders):
        raise SpecError(f"The {what} {uri!r} has '//' or '/./' in it. Write it without.")


def in_full(uri: str) -> str:
    """Return ``file:///folder`` for ``file:/folder``, which Hadoop writes, and others as they are."""
    return f"file://{uri[len('file:') :]}" if _SHORT.match(uri) else uri


def lacks_slashes(uri: str) -> bool:
    """Tell whether a text looks like a URI whose author forgot ``//``, e.g. ``s3:/bucket/x``."""
    return not scheme_of(uri) and _NO_SLASHES.match(uri) is not None


def scheme_of(uri: str) -> str:
    """Return the URI's scheme in lower case; empty for a plain path."""
    uri = in_full(uri)
    return uri.split("://", 1)[0].lower() if "://" in uri else ""


def is_local(uri: str) -> bool:
    """Tell whether the URI is a folder of this machine."""
    return scheme_of(uri) in _LOCAL


def local_path(uri: str) -> str:
    """Return the path of a local URI."""
    uri = in_full(uri)
    return uri.split("://", 1)[1] if "://" in uri else uri


def to_hadoop(uri: str) -> str:
    """Return the URI as Spark and Hadoop spell it (``s3`` becomes ``s3a``)."""
    if is_local(uri):
        return f"file://{local_path(uri)}"
    return _with_scheme(uri, _HADOOP_OF)


def to_fsspec(uri: str) -> str:
    """Return the URI as fsspec spells it (``s3a`` becomes ``s3``)."""
    return local_path(uri) if is_local(uri) else _with_scheme(uri, _FSSPEC_OF)


def join(base: str, *parts: str) -> str:
    """Join checked path parts to a URI."""
    return "/".join([base.rstrip("/"), *parts])


def _with_scheme(uri: str, names: dict[str, str]) -> str:
    scheme, rest = uri.split("://", 1)
    scheme = scheme.lower()
    return f"{names.get(scheme, scheme)}://{rest}"
