"""Java and Lucene's classes in this process, through JPype: which jars, starting a JVM, and what stands in the way.

A process has one JVM, for good. Knows jars and classes; knows no index.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import threading
import zipfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from qidf.engines.base import missing
from qidf.errors import EngineError

JVM_OPTIONS = ("-Xrs", "-XX:+UseSerialGC", "-Xms256m", "-Xmx1g", "--enable-native-access=ALL-UNNAMED")
"""`-Xrs`: signals stay Python's, Ctrl-C too. Lucene maps its files and needs little heap; in much less it is slow. The
last one, which Java knows since 16, keeps Java 24 from warning of JPype."""

JARS = (
    "the jars lucene-core and lucene-analysis-common of the Lucene that wrote the index, or of a later one with its"
    " lucene-backward-codecs (9.5 at least), from https://repo1.maven.org/maven2/org/apache/lucene/, or those that"
    " pip install pyserini brings"
)

_STARTING = threading.Lock()


def start(option: str) -> Any:
    """Return Lucene's classes, of the JVM that runs in this process or is started now. EngineError if none can."""
    try:
        import jpype
    except ImportError:
        raise missing("JPype", "lucene") from None
    with _STARTING:
        if not (jpype.isJVMStarted() and _has_lucene()):
            jars = _find_jars(option)  # before the only JVM of this process is started in vain
            if not jpype.isJVMStarted():
                _start_jvm(jpype)
            try:
                for jar in jars:
                    jpype.addClassPath(jar)
            except jpype.JException as error:  # a name that Java can't spell in this locale
                raise EngineError(f"Java can't read the jars. It says: {': '.join(told(error))}") from None
        return classes()


def _start_jvm(jpype: Any) -> None:
    if getattr(sys.modules.get("jnius_config"), "vm_running", False):
        raise EngineError(
            "pyjnius runs Java in this process (Pyserini does so when it is imported), and JPype can't beside it: ask"
            " qidf in another process, with qidf search --engine or multiprocessing's spawn"
        )
    try:
        jpype.startJVM(*JVM_OPTIONS, classpath=[], convertStrings=False, interrupt=True)
    except jpype.JVMNotFoundException:
        raise EngineError("no Java found: install Java 17 or later (Lucene 10 needs 21), or set JAVA_HOME") from None
    except (RuntimeError, OSError, ValueError) as error:
        raise EngineError(
            f"Java can't be started in this process: {' '.join(str(error).split())} (is it running already, through"
            " another library, or was it shut down? Ask in another process then)"
        ) from None
    _loggers.append(jpype.JClass("java.util.logging.Logger").getLogger("org.apache.lucene"))
    _loggers[0].setLevel(jpype.JClass("java.util.logging.Level").SEVERE)


_loggers: list[Any] = []  # Java forgets the level of a logger nobody holds


def _find_jars(option: str) -> list[Path]:
    """Return the jars that hold Lucene and what lies beside them."""
    place = os.path.expanduser(option or os.environ.get("QIDF_LUCENE_JARS", ""))
    if not place:
        found = importlib.util.find_spec("pyserini")  # without importing it, which starts a JVM
        for folder in (found and found.submodule_search_locations) or ():
            place = os.path.join(folder, "resources", "jars")
        if not place or not os.path.isdir(place):
            raise EngineError(f"no Lucene: name with jars=DIR or QIDF_LUCENE_JARS the folder that holds {JARS}")
    jars = [Path(place)] if os.path.isfile(place) else sorted(Path(place).glob("*.jar"))
    if not any(map(_holds_lucene, jars)):
        raise EngineError(f"no Lucene in {place}: put there {JARS}")
    return [jar.absolute() for jar in jars]


def _holds_lucene(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as file:
            return "org/apache/lucene/index/DirectoryReader.class" in file.NameToInfo
    except (OSError, zipfile.BadZipFile):
        return False


def _has_lucene() -> bool:
    from jpype import JClass, JException

    try:
        JClass("org.apache.lucene.util.Version")
    except TypeError:
        return False
    except JException:  # it is there, but for a later Java, as `classes` will tell
        pass
    return True


@cache
def classes() -> Any:
    """Return Java's classes by their short names."""
    from jpype import JByte, JClass, JException

    lucene = """
        analysis.Analyzer analysis.tokenattributes.CharTermAttribute analysis.tokenattributes.OffsetAttribute
        index.DirectoryReader index.FieldInfos index.MultiBits index.MultiDocValues index.MultiTerms index.Term
        search.BooleanClause$Occur search.BooleanQuery search.BoostQuery search.IndexSearcher search.Query
        search.TermQuery search.similarities.BM25Similarity store.FSDirectory util.BytesRef util.SmallFloat
        util.Version
    """
    names = ["java.nio.file.Paths", "java.util.Set", *(f"org.apache.lucene.{name}" for name in lucene.split())]
    try:
        found = {re.split(r"[.$]", name)[-1]: JClass(name) for name in names}
        version = found["Version"].LATEST
    except JException as error:  # an UnsupportedClassVersionError
        name, says = told(error)
        raise EngineError(f"this Java can't run these jars. It says: {name}: {says}. Needed are {JARS}") from None
    except TypeError as error:
        raise EngineError(f"the jars hold no whole Lucene: {error}. Needed are {JARS}") from None
    if (int(version.major), int(version.minor)) < (9, 5):
        raise EngineError(f"the jars are of Lucene {version}, which qidf does not know. Needed are {JARS}")
    return SimpleNamespace(**found, Throwable=JException, Byte=JByte)


def told(error: Any) -> tuple[str, str]:
    """Return the name of a Java exception's class and its message on one line."""
    return str(error.getClass().getSimpleName()), " ".join(str(error.getMessage() or "no more").split())
