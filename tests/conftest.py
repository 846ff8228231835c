from __future__ import annotations

from collections.abc import Iterator

import pytest

# Here and nowhere else: a module that imported them would have servers of its own, until the session ends.
from tests.engines.elasticsearch_server import elastic
from tests.engines.opensearch_server import cluster

__all__ = ["cluster", "elastic"]


@pytest.fixture(scope="session", autouse=True)
def own_data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the key of the indexes that the tests build (`qidf.index.trust`) out of the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data-home")))
        yield
