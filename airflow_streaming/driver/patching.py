"""Put a function in the place of a method, and call the method as it was called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

Patch = Callable[[Any, Any, Mapping[str, Any]], Any]


def patch_method(owner: type, name: str, patch: Patch) -> None:
    """Put ``patch(original, self, given)`` in the place of a method; arguments come by name."""
    original = owner.__dict__[name]
    signature = inspect.signature(original)

    @functools.wraps(original)
    def patched(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = dict(signature.bind(self, *args, **kwargs).arguments)
        del given["self"]
        return patch(original, self, given)

    setattr(owner, name, patched)


def call_original(original: Any, writer: Any, given: Mapping[str, Any]) -> Any:
    """Call a patched method as it was called, its ``**options`` included."""
    named = {key: value for key, value in given.items() if key != "options"}
    return original(writer, **named, **given.get("options", {}))
