"""Libraries that a test needs: where one is missing it is skipped, or fails if `QIDF_REQUIRE_ENGINES` names it."""

from __future__ import annotations

import importlib
import os
from typing import Any, NoReturn

import pytest


def absent(engine: str, reason: str) -> NoReturn:
    """Skip, or fail if this machine must have the engine."""
    if engine in os.environ.get("QIDF_REQUIRE_ENGINES", "").split(","):
        pytest.fail(f"QIDF_REQUIRE_ENGINES names {engine}, but {reason}", pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def load(engine: str, module: str = "") -> Any:
    """Return the library of an engine, or skip."""
    try:
        return importlib.import_module(module or engine)
    except ImportError as error:
        absent(engine, f"{error} (pip install 'qidf[{engine}]')")
