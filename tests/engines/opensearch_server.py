"""A real OpenSearch of two nodes, made of the jars on Maven Central, or the cluster that QIDF_TEST_OPENSEARCH names."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from filelock import FileLock

from tests.engines.required import absent


class Release(NamedTuple):
    """A version of OpenSearch, the versions of Java that the tests run it on, and how its modules' classes end."""

    version: str
    java: range
    plugin: str
    jars: Sequence[str] = ()
    flags: Sequence[str] = ()


RELEASES = (
    Release("2.19.6", range(17, 24), "Plugin", flags=("-Djava.security.manager=allow",)),
    Release("3.9.0", range(24, 40), "ModulePlugin", jars=("opensearch:opensearch-agent-bootstrap",)),
)
"""OpenSearch 2 runs under a security manager, which Java 24 took away."""
LOG4J = "2.25.4"
NOBODY = "nobody"
FETCH_SECONDS = 600
START_SECONDS = 120
STOP_SECONDS = 15


class Module(NamedTuple):
    """A plugin that comes with every OpenSearch. Its jar carries neither its descriptor nor its policy."""

    artifact: str
    plugin: str
    extends: str = ""
    permissions: Sequence[str] = ()


MODULES = {
    "transport-netty4": Module(
        "transport-netty4-client",
        "org.opensearch.transport.Netty4",
        permissions=['java.net.SocketPermission "*", "accept,connect"', 'java.lang.RuntimePermission "getClassLoader"'],
    ),
    "lang-painless": Module(
        "lang-painless",
        "org.opensearch.painless.Painless",
        permissions=['java.lang.RuntimePermission "createClassLoader"', 'java.lang.RuntimePermission "getClassLoader"'],
    ),
    "analysis-common": Module(
        "analysis-common", "org.opensearch.analysis.common.CommonAnalysis", extends="lang-painless"
    ),
}

LOGGING = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%c{1.}] %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""

SETTINGS = """cluster.name: qidf-test
network.host: 127.0.0.1
discovery.find_peers_interval: 200ms
cluster.initial_cluster_manager_nodes: node-0
cluster.routing.allocation.disk.threshold_enabled: false
indices.query.bool.max_clause_count: 4096
indices.breaker.total.use_real_memory: false
"""
"""One node alone elects itself, so that it needn't wait for the other. A machine's disk may be nearly full. A small
heap is soon full of garbage, for which the breaker of real memory would refuse requests."""

JVM = [
    *("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto"),
    *("-Djava.awt.headless=true", "-Dfile.encoding=UTF-8", "-Djava.locale.providers=SPI,COMPAT"),
    *("-Dio.netty.noUnsafe=true", "-Dio.netty.noKeySetOptimization=true"),
    *("-Dlog4j.shutdownHookEnabled=false", "-Dlog4j2.disable.jmx=true"),
    "-Dopensearch.distribution.type=tar",
]

WATCHDOG = 'read -r _; folder=$1; shift; kill -9 "$@" 2>/dev/null; sleep 1; rm -rf "$folder"'
"""Waits for its standard input to close, as it does however this process ends, and clears away what that left."""


class Server(NamedTuple):
    """A running cluster: its first node, all its nodes, and the version of OpenSearch."""

    url: str
    urls: list[str]
    version: str


@pytest.fixture(scope="session")
def cluster() -> Iterator[Server]:
    """Give the cluster of this test session, which starts when the first test asks for it."""
    with opensearch() as server:
        yield server


@contextmanager
def opensearch() -> Iterator[Server]:
    """Run a cluster of two nodes for as long as the block lasts; skips where Java, Maven or the jars are missing."""
    if given := os.environ.get("QIDF_TEST_OPENSEARCH", "").rstrip("/"):
        yield Server(given, [given], request(given)["version"]["number"])
        return
    java, java_version, release = _java()
    home = distribution(release)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="qidf-opensearch-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        ports = _free_ports(4)
        http, transport = ports[:2], ports[2:]
        archive = home / f"classes-{java_version}.jsa"
        made = folder / archive.name
        fits = _readable(home)  # an archive of classes is of use only to where its jars lay
        if not fits:
            home = Path(shutil.copytree(home, folder / "home"))
        nodes: list[subprocess.Popen[bytes]] = []
        for i in range(2):
            classes = "-Xshare:auto"
            if fits and archive.exists():
                classes = f"-XX:SharedArchiveFile={archive}"
            elif fits and i == 0:
                classes = f"-XX:ArchiveClassesAtExit={made}"
            node = _start([java, *JVM, *release.flags, classes], home, folder, i, http[i], transport)
            stack.callback(_kill, node)
            nodes.append(node)
        stack.enter_context(_watched(folder, nodes))
        urls = [f"http://127.0.0.1:{port}" for port in http]
        _wait(urls[0], nodes, folder)
        try:
            yield Server(urls[0], urls, release.version)
        finally:
            _stop(nodes)
            _keep(made, archive)


class Mortal:
    """A cluster of one node that can be killed, and started again on the same port with what it had on disk."""

    def __init__(self, java: Sequence[str], home: Path, folder: Path) -> None:
        self._java, self._home, self._folder = java, home, folder
        self._http, self._transport = _free_ports(2)
        self.url = f"http://127.0.0.1:{self._http}"
        self.node = self._begin()

    def _begin(self) -> subprocess.Popen[bytes]:
        return _start(self._java, self._home, self._folder, 0, self._http, [self._transport])

    def wait(self) -> None:
        """Return once it answers."""
        _wait(self.url, [self.node], self._folder)

    def kill(self) -> None:
        """End it at once, as a machine does that loses its power."""
        _kill(self.node)

    def start(self) -> None:
        """Start it again."""
        self.node = self._begin()


@contextmanager
def mortal() -> Iterator[Mortal]:
    """Run one node for as long as the block lasts."""
    java, _, release = _java()
    home = distribution(release)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="qidf-opensearch-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if not _readable(home):
            home = Path(shutil.copytree(home, folder / "home"))
        server = Mortal([java, *JVM, *release.flags], home, folder)
        stack.callback(server.kill)
        server.wait()
        yield server


def request(url: str, body: Any = None, method: str = "GET", timeout: float = 30) -> Any:
    """Return the JSON that a node answers."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(asked, timeout=timeout) as answer:
        return json.load(answer)


def distribution(release: Release) -> Path:
    """Return OpenSearch's home, laid out once from the jars on Maven Central."""
    home = Path(sys.prefix) / f"opensearch-{release.version}"
    if not home.is_dir():
        with FileLock(f"{home}.lock"):
            if not home.is_dir():
                with tempfile.TemporaryDirectory(prefix="opensearch-", dir=home.parent) as aside:
                    _lay_out(Path(aside), release).rename(home)
    return home


def _lay_out(aside: Path, release: Release) -> Path:
    artifacts = {"server": ["opensearch:opensearch", "opensearch:opensearch-plugin-classloader", *release.jars]}
    artifacts |= {name: [f"opensearch.plugin:{module.artifact}"] for name, module in MODULES.items()}
    for name, needed in artifacts.items():
        lines = [_dependency(*f"org.{one}:{release.version}".split(":")) for one in needed]
        if name == "server":  # the server's own pom has it as optional
            lines.append(_dependency("org.apache.logging.log4j", "log4j-core", LOG4J))
        _write_pom(aside / name, name, "<dependencies>" + "".join(lines) + "</dependencies>")
    modules = "".join(f"<module>{name}</module>" for name in artifacts)
    _write_pom(aside, "all", f"<packaging>pom</packaging><modules>{modules}</modules>")
    command = ["mvn", "-q", "-B", "-f", str(aside), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        absent("opensearch", f"Maven can't fetch OpenSearch: {error}")
    if done.returncode:
        absent("opensearch", f"Maven can't fetch OpenSearch: {done.stdout[-1000:]}")

    home = aside / "home"
    for name in ("bin", "plugins"):  # left empty; the server would make them, but as a user who can't
        (home / name).mkdir(parents=True)
    (aside / "server" / "target" / "dependency").rename(home / "lib")
    for name, module in MODULES.items():
        folder = home / "modules" / name
        folder.mkdir(parents=True)
        for jar in (aside / name / "target" / "dependency").iterdir():
            if not (home / "lib" / jar.name).exists():
                jar.rename(folder / jar.name)
        (folder / "plugin-descriptor.properties").write_text(
            f"name={name}\ndescription={name}\nversion={release.version}\nopensearch.version={release.version}\njava.version=11\n"
            f"classname={module.plugin}{release.plugin}\nextended.plugins={module.extends}\nhas.native.controller=false\n"
        )
        if module.permissions:
            lines = [f"  permission {one};\n" for one in module.permissions]
            (folder / "plugin-security.policy").write_text("grant {\n" + "".join(lines) + "};\n")
    return home


def _dependency(group: str, artifact: str, version: str) -> str:
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
    )


def _write_pom(folder: Path, name: str, content: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>qidf.test</groupId><artifactId>{name}</artifactId><version>1</version>{content}</project>"
    )


def _java() -> tuple[str, str, Release]:
    """Return a Java that OpenSearch can run on, the one of JAVA_HOME before the one on the path, its version, and what
    runs on it.
    """
    home = os.environ.get("JAVA_HOME")
    found = [(java, _java_version(java)) for java in ([str(Path(home, "bin", "java"))] if home else []) + ["java"]]
    fit = [
        (java, version, release)
        for java, version in found
        for release in RELEASES
        if int(re.split(r"\D", version)[0] or 0) in release.java
    ]
    if not fit:
        versions = ", ".join(version for _, version in found if version)
        absent("opensearch", f"it needs Java 17 or newer (found: {versions or 'none'})")
    return fit[0]


def _java_version(java: str) -> str:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    match = re.search(r'version "([^"]+)"', done.stderr)
    return match[1] if match else ""


def _user() -> dict[str, Any]:
    """Return whom a node runs as: OpenSearch refuses to be root, whom the tests of a container often run as."""
    if os.geteuid():
        return {}
    return {"user": NOBODY, "group": pwd.getpwnam(NOBODY).pw_gid, "extra_groups": []}


def _give(folder: Path) -> None:
    """Give a folder to the user whom a node runs as."""
    if user := _user():
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, user["user"], user["group"])


def _readable(home: Path) -> bool:
    """Return whether the user whom a node runs as can read the jars, as nobody but root can those in root's home."""
    jars = [str(jar) for jar in home.glob("lib/opensearch-*.jar")]
    return all(subprocess.run(["test", "-r", jar], check=False, **_user()).returncode == 0 for jar in jars[:1])


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in taken]


def _start(
    java: Sequence[str], home: Path, folder: Path, i: int, http: int, transport: Sequence[int]
) -> subprocess.Popen[bytes]:
    own = folder / f"node-{i}"
    for name in ("config", "tmp"):
        (own / name).mkdir(parents=True, exist_ok=True)
    seeds = ", ".join(f'"127.0.0.1:{port}"' for port in transport)
    (own / "config" / "opensearch.yml").write_text(
        f"{SETTINGS}node.name: node-{i}\nhttp.port: {http}\ntransport.port: {transport[i]}\n"
        f"discovery.seed_hosts: [{seeds}]\npath.data: {own / 'data'}\npath.logs: {own / 'logs'}\n"
    )
    (own / "config" / "log4j2.properties").write_text(LOGGING)
    _give(folder)
    jars = sorted(str(jar) for jar in (home / "lib").iterdir())
    command = [
        *java,
        f"-Djava.io.tmpdir={own / 'tmp'}",
        f"-Dopensearch.path.home={home}",
        f"-Dopensearch.path.conf={own / 'config'}",
        *("-cp", ":".join(jars), "org.opensearch.bootstrap.OpenSearch"),
    ]
    with (folder / f"node-{i}.log").open("wb") as log:
        # A session of its own: Ctrl-C is for the tests, which stop the nodes in turn.
        try:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=own, start_new_session=True, **_user()
            )
        except OSError as error:
            absent("opensearch", f"Java can't be run: {error}")


@contextmanager
def _watched(folder: Path, nodes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    command = ["sh", "-c", WATCHDOG, "sh", str(folder), *(str(node.pid) for node in nodes)]
    watchdog = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        for node in nodes:
            _kill(node)
        watchdog.kill()
        watchdog.communicate()


def _kill(node: subprocess.Popen[bytes]) -> None:
    node.kill()
    node.wait()


def _stop(nodes: Sequence[subprocess.Popen[bytes]]) -> None:
    for node in nodes:
        node.terminate()
    end = time.monotonic() + STOP_SECONDS
    for node in nodes:
        try:
            node.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            _kill(node)


def _keep(made: Path, archive: Path) -> None:
    """Keep the classes that a node has put by, which later ones start from in less time."""
    if made.exists() and not archive.exists():
        beside = archive.with_suffix(f".{os.getpid()}")
        shutil.copyfile(made, beside)
        beside.replace(archive)


def _wait(url: str, nodes: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    end = time.monotonic() + START_SECONDS
    reason = "no answer"
    while time.monotonic() < end and all(node.poll() is None for node in nodes):
        try:
            health = request(f"{url}/_cluster/health", timeout=5)
        except OSError as error:
            reason = str(error)
        else:
            reason = str(health)
            if health["number_of_nodes"] == len(nodes) and health["status"] in ("green", "yellow"):
                return
        time.sleep(0.05)
    logs = "\n".join((folder / f"node-{i}.log").read_text(errors="replace")[-2000:] for i in range(len(nodes)))
    absent("opensearch", f"OpenSearch does not start ({reason}):\n{logs}")
