"""`python -m qidf` is `qidf`."""

import sys

from qidf.cli import main

sys.exit(main())
