from __future__ import annotations

from tests.page.demo_home import demo_home

__all__ = ["demo_home"]
