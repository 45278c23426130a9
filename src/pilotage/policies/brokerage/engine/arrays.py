"""Kinds of arrays for columns and tables."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
Mask = NDArray[np.bool_]
Codes = NDArray[np.intp]
"""Indexes into a table of distinct values."""
