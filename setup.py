"""Builds the compiled kernels where a C compiler is found; without one the build goes on and plain Python takes over.

QIDF_STRICT_BUILD=1 makes compiler warnings and a failed build errors; `.ci/run` sets it.
"""

import os
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

STRICT = os.environ.get("QIDF_STRICT_BUILD") == "1"
KERNELS = ("scan", "inverter", "scorer", "merger", "lookup")


class BuildKernels(build_ext):  # type: ignore[misc,unused-ignore]
    """Says once, in the build's output, when the kernels could not be compiled."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            if STRICT:
                raise
            self._missing(error)

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            if STRICT:
                raise
            self._missing(error)

    def _missing(self, error: Exception) -> None:
        print(f"qidf: the compiled kernels were not built ({error}); plain Python takes over", file=sys.stderr)
        self.extensions: list[Extension] = []

    def get_outputs(self) -> list[str]:
        return [path for path in super().get_outputs() if os.path.exists(path)]


def extensions() -> list[Extension]:
    """Return the kernels, translated to C; none where Cython is missing."""
    flags = ["-O3", "-ffp-contract=off"]  # the same float64 sums as the plain Python twin, to the last bit
    if STRICT:
        flags += ["-Wall", "-Werror", "-Wno-unused-function", "-Wno-unreachable-code"]
    modules = [
        Extension(f"qidf.kernels.{name}", [f"src/qidf/kernels/{name}.pyx"], extra_compile_args=flags)
        for name in KERNELS
    ]
    try:
        from Cython.Build import cythonize
        from Cython.Compiler import Options
    except ImportError:
        if STRICT:
            raise
        return []
    Options.warning_errors = STRICT
    built: list[Extension] = cythonize(modules, include_path=["src"], language_level=3)  # type: ignore[no-untyped-call,unused-ignore]
    return built


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildKernels})
