"""The configuration with which Parsl's own tests run: its folder is one that jobs share."""

import os
import sys

from parsl.config import Config
from parsl_pilotage import PilotageExecutor

config = Config(executors=[PilotageExecutor(working_dir=os.getcwd(), conda=sys.prefix)])  # noqa: PTH109
