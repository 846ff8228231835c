"""The hot loops: compiled where a C compiler was found at installation, else a plain Python twin, slower, never wrong.

Both give the same under the same names: `Scanner` (text to terms), `Inverter` and `invert` (texts to postings),
`Reader` (look-up and ranking in one segment), `Merger` (segments to one), `Lookup` (terms by their parts), `checksums`.
`QIDF_KERNELS=python` in the environment chooses the twin.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

COMPILED = False
"""Whether the compiled kernels are in use."""

if TYPE_CHECKING:
    from qidf.kernels.inverter import Inverter, invert
    from qidf.kernels.lookup import Lookup
    from qidf.kernels.merger import Merger
    from qidf.kernels.scan import Scanner
    from qidf.kernels.scorer import Reader, analyze, checksums
else:
    try:
        if os.environ.get("QIDF_KERNELS") == "python":
            raise ImportError("the environment asks for plain Python")
        from qidf.kernels.inverter import Inverter, invert
        from qidf.kernels.lookup import Lookup
        from qidf.kernels.merger import Merger
        from qidf.kernels.scan import Scanner
        from qidf.kernels.scorer import Reader, analyze, checksums

        COMPILED = True
    except ImportError:
        from qidf.kernels.twin import Inverter, Lookup, Merger, Reader, Scanner, analyze, checksums, invert

__all__ = ["COMPILED", "Inverter", "Lookup", "Merger", "Reader", "Scanner", "analyze", "checksums", "invert"]
