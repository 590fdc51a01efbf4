"""
What Java's ``DataOutputStream`` writes: big-endian numbers and texts in *modified* UTF-8.

Modified UTF-8 has two bytes for NUL and writes the two halves of a surrogate pair one by one. Spark
cuts long texts into chunks by characters, so that such a pair may lie in two of them.
"""

from __future__ import annotations

from typing import Final

from airflow_streaming.exceptions import RecordError

_NUL: Final = b"\xc0\x80"


class JavaInput:
    """
    Reads values one after another.

    :param what: Names the file in messages.
    """

    def __init__(self, data: bytes, what: str) -> None:
        self._data, self._what, self._at = data, what, 0

    def short(self) -> int:
        """
        Read a signed number of two bytes.

        :raises RecordError: the data ends before, as in every other reader.
        """
        return int.from_bytes(self._take(2), "big", signed=True)

    def length(self) -> int:
        """
        Read a number of four bytes that counts things which follow.

        :raises RecordError: it is below zero, or more than could follow.
        """
        number = int.from_bytes(self._take(4), "big", signed=True)
        if not 0 <= number <= len(self._data) - self._at:
            raise RecordError(f"The {self._what} counts {number} parts, and has no room for them.")
        return number

    def text(self) -> str:
        """
        Read one text.

        :raises RecordError: it is no modified UTF-8.
        """
        return self._whole(self._piece())

    def chunks(self) -> str:
        """
        Read a text in chunks.

        :raises RecordError: as ``text``.
        """
        return self._whole("".join([self._piece() for _ in range(self.length())]))

    def end(self) -> None:
        """
        Check that everything was read.

        :raises RecordError: bytes are left.
        """
        if left := len(self._data) - self._at:
            raise RecordError(f"The {self._what} has {left} bytes after its end.")

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise RecordError(f"The {self._what} is cut off after {len(self._data)} bytes.")
        self._at += size
        return taken

    def _piece(self) -> str:
        size = int.from_bytes(self._take(2), "big")
        try:
            return self._take(size).replace(_NUL, b"\0").decode("utf-8", "surrogatepass")
        except UnicodeDecodeError as err:
            raise self._no_text() from err

    def _whole(self, text: str) -> str:
        if text.isascii():
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as err:
            raise self._no_text() from err

    def _no_text(self) -> RecordError:
        return RecordError(f"The {self._what} has bytes that are no text of Java's.")
