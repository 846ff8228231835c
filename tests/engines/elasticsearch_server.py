"""A real Elasticsearch of one node, made of the jars on Maven Central, or the one that QIDF_TEST_ELASTICSEARCH names.

Maven Central has the server and its HTTP transport, and none of the modules that a release comes with: no Painless, no
language analyzers, no security, and no answer to `GET /`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from tests.engines.opensearch_server import (
    FETCH_SECONDS,
    START_SECONDS,
    Server,
    _dependency,
    _free_ports,
    _java,
    _kill,
    _stop,
    _watched,
    _write_pom,
    request,
)
from tests.engines.required import absent

VERSION = "8.17.0"
LOG4J = "2.19.0"
NODE = Path(__file__).parent / "ElasticsearchNode.java"

SETTINGS = """cluster.name: qidf-test
node.name: node-0
network.host: 127.0.0.1
discovery.type: single-node
cluster.routing.allocation.disk.threshold_enabled: false
indices.query.bool.max_clause_count: 4096
indices.breaker.total.use_real_memory: false
"""

DESCRIPTOR = f"""name=transport-netty4
description=transport-netty4
version={VERSION}
elasticsearch.version={VERSION}
java.version=17
classname=org.elasticsearch.transport.netty4.Netty4Plugin
extended.plugins=
has.native.controller=false
"""

JVM = [
    *("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("-Djava.awt.headless=true", "-Dfile.encoding=UTF-8", "-Dlog4j2.disable.jmx=true"),
    *("-Dio.netty.noUnsafe=true", "-Dio.netty.noKeySetOptimization=true"),
]


@pytest.fixture(scope="session")
def elastic() -> Iterator[Server]:
    """Give the server of this test session, which starts when the first test asks for it."""
    with elasticsearch() as server:
        yield server


@contextmanager
def elasticsearch() -> Iterator[Server]:
    """Run a node for as long as the block lasts; skips where Java, Maven or the jars are missing."""
    if given := os.environ.get("QIDF_TEST_ELASTICSEARCH", "").rstrip("/"):
        yield Server(given, [given], "")
        return
    java, _, _ = _java()
    home = distribution()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="qidf-elasticsearch-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        http, transport = _free_ports(2)
        config = folder / "config"
        config.mkdir()
        (config / "elasticsearch.yml").write_text(
            f"{SETTINGS}http.port: {http}\ntransport.port: {transport}\n"
            f"path.data: {folder / 'data'}\npath.logs: {folder / 'logs'}\n"
        )
        command = [java, *JVM, f"-Djava.io.tmpdir={folder}", "-p", str(home / "lib"), "--add-modules=ALL-MODULE-PATH"]
        with (folder / "node.log").open("wb") as log:
            node = subprocess.Popen(
                [*command, str(NODE), str(config), str(home)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True,
            )  # fmt: skip
        stack.callback(_kill, node)
        stack.enter_context(_watched(folder, [node]))
        url = f"http://127.0.0.1:{http}"
        _wait(url, node, folder)
        try:
            yield Server(url, [url], VERSION)
        finally:
            _stop([node])


def distribution() -> Path:
    """Return Elasticsearch's home, laid out once from the jars on Maven Central."""
    home = Path(sys.prefix) / f"elasticsearch-{VERSION}"
    if not home.is_dir():
        with FileLock(f"{home}.lock"):
            if not home.is_dir():
                with tempfile.TemporaryDirectory(prefix="elasticsearch-", dir=home.parent) as aside:
                    _lay_out(Path(aside)).rename(home)
    return home


def _lay_out(aside: Path) -> Path:
    server = [("org.elasticsearch", "elasticsearch", VERSION), ("org.apache.logging.log4j", "log4j-core", LOG4J)]
    artifacts = {"server": server, "netty": [("org.elasticsearch.plugin", "transport-netty4", VERSION)]}
    for name, needed in artifacts.items():
        lines = "".join(_dependency(*one) for one in needed)
        _write_pom(aside / name, name, f"<dependencies>{lines}</dependencies>")
    modules = "".join(f"<module>{name}</module>" for name in artifacts)
    _write_pom(aside, "all", f"<packaging>pom</packaging><modules>{modules}</modules>")
    command = ["mvn", "-q", "-B", "-f", str(aside), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        absent("elasticsearch", f"Maven can't fetch Elasticsearch: {error}")
    if done.returncode:
        absent("elasticsearch", f"Maven can't fetch Elasticsearch: {done.stdout[-1000:]}")
    home = aside / "home"
    module = home / "modules" / "transport-netty4"
    for folder in (home / "plugins", module):
        folder.mkdir(parents=True)
    (aside / "server" / "target" / "dependency").rename(home / "lib")
    for jar in (aside / "netty" / "target" / "dependency").iterdir():
        if not (home / "lib" / jar.name).exists():
            jar.rename(module / jar.name)
    (module / "plugin-descriptor.properties").write_text(DESCRIPTOR)
    return home


def _wait(url: str, node: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + START_SECONDS
    reason = "no answer"
    while time.monotonic() < end and node.poll() is None:
        try:
            health = request(f"{url}/_cluster/health", timeout=5)
        except OSError as error:
            reason = str(error)
        else:
            reason = str(health)
            if health["status"] in ("green", "yellow"):
                return
        time.sleep(0.05)
    log = (folder / "node.log").read_text(errors="replace")[-2000:]
    absent("elasticsearch", f"Elasticsearch does not start ({reason}):\n{log}")
