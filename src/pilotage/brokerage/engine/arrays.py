"""Kinds of arrays of which columns and tables are made."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]
Mask = NDArray[np.bool_]
Codes = NDArray[np.intp]
"""Places in a table of distinct values."""
