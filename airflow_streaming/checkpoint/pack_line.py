"""
The line that packs go through: one thread compresses, others send to the store.

Compressing lets other threads run, so that it costs little time while files are read. Every queue
has an end, so that memory is bounded however slow the store is.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from airflow_streaming.checkpoint.blobs import Blobs
from airflow_streaming.checkpoint.layout import index_path, pack_path
from airflow_streaming.checkpoint.packs import PackBuilder, padding, tar_header
from airflow_streaming.core.checkpoint.backup import Bundle, Member
from airflow_streaming.core.checkpoint.index import MAX_MEMBERS, encode_index

PACK_BYTES: Final = 8 * 1024 * 1024
"""A pack is closed when its members have so many bytes, headers and padding counted."""

_SLICE: Final = 512 * 1024
_SLICES: Final = 8
"""At most 4 MiB wait for the compressor."""
_SENDERS: Final = 4

Wrote = Callable[[str, Bundle], None]


@dataclass(slots=True)
class OpenBundle:
    """
    A bundle that is being written.

    :param index: Its name in the store, once it is there; empty before.
    """

    members: list[Member] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    builder: PackBuilder = field(default_factory=PackBuilder)
    parts: list[bytes] = field(default_factory=list)
    waiting: int = 0
    packed: int = 0
    index: str = ""
    index_size: int = 0

    def add(self, member: Member, data: bytes | None) -> int:
        """Take a member, with its content unless it is alone; return its number."""
        self.members.append(member)
        self.paths.add(member.path)
        if data is not None:
            parts = (tar_header(member.path, len(data)), data, padding(len(data)))
            size = sum(map(len, parts))
            self.parts += parts
            self.waiting += size
            self.packed += size
        return len(self.members) - 1

    @property
    def is_full(self) -> bool:
        """Tell whether nothing more should be added."""
        return self.packed >= PACK_BYTES or len(self.members) >= MAX_MEMBERS


class PackLine:
    """
    Compresses and sends the bundles of one stream.

    After an error nothing more is sent, and every call raises it.
    """

    def __init__(self, blobs: Blobs, stream: str, wrote: Wrote) -> None:
        self._blobs, self._stream, self._wrote = blobs, stream, wrote
        self._compressor = ThreadPoolExecutor(1, "pack")
        self._senders = ThreadPoolExecutor(min(_SENDERS, blobs.workers), "send")
        self._slices = threading.BoundedSemaphore(_SLICES)
        self._packs = threading.BoundedSemaphore(2 * _SENDERS)
        self._sent: list[Future[None]] = []
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self.sent_size = 0

    def feed(self, bundle: OpenBundle, *, at_least: int = _SLICE) -> None:
        """Hand what waits in a bundle to the compressor when it is enough for a slice."""
        self.check()
        if bundle.waiting < at_least:
            return
        parts, bundle.parts, bundle.waiting = bundle.parts, [], 0
        self._slices.acquire()
        self._submit(self._compressor, self._compress, bundle, parts)

    def close(self, bundle: OpenBundle) -> None:
        """Have a bundle finished and sent; it is there after ``wait``."""
        self.feed(bundle, at_least=1)
        self._submit(self._compressor, self._finish, bundle)

    def wait(self) -> None:
        """Wait until all that was closed is in the store."""
        self._compressor.submit(lambda: None).result()
        for sent in self._sent:
            sent.result()
        self._sent.clear()
        self.check()

    def stop(self) -> None:
        """End the threads; what has not begun is left out."""
        with self._lock:
            self._error = self._error or RuntimeError("The writer of this backup was closed.")
        self._compressor.shutdown()
        self._senders.shutdown()

    def check(self) -> None:
        """Raise what a thread met."""
        if self._error is not None:
            raise self._error

    def _compress(self, bundle: OpenBundle, parts: Sequence[bytes]) -> None:
        try:
            if self._error is None:
                bundle.builder.feed(parts)
        finally:
            self._slices.release()

    def _finish(self, bundle: OpenBundle) -> None:
        if self._error is None:
            pack = bundle.builder.finish() if bundle.packed else b""
            self._packs.acquire()
            self._sent.append(self._submit(self._senders, self._send, bundle, pack))

    def _send(self, bundle: OpenBundle, pack: bytes) -> None:
        try:
            if self._error is None:
                self._store(bundle, pack)
        finally:
            self._packs.release()

    def _store(self, bundle: OpenBundle, pack: bytes) -> None:
        name = hashlib.sha256(pack).hexdigest() if pack else ""
        written = Bundle(pack=name, pack_size=len(pack), members=tuple(bundle.members))
        index = encode_index(written)
        digest = hashlib.sha256(index).hexdigest()
        # Objects before what names them: an index in the store is always good for use.
        if pack:
            self._blobs.put(pack_path(self._stream, name), pack)
        self._blobs.put(index_path(self._stream, digest), index)
        bundle.index, bundle.index_size = digest, len(index)
        self._wrote(digest, written)
        with self._lock:
            self.sent_size += len(pack) + len(index)

    def _submit(
        self, pool: ThreadPoolExecutor, act: Callable[..., None], *arguments: object
    ) -> Future[None]:
        future = pool.submit(act, *arguments)
        # Called by the same thread before it takes the next act.
        future.add_done_callback(self._note)
        return future

    def _note(self, done: Future[None]) -> None:
        with self._lock:
            self._error = self._error or done.exception()
