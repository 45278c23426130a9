"""Snakemake's own tests of executors, both workflows, on a real server."""

from pathlib import Path

import pytest
from server import LocalServer
from snakemake.common.tests import TestWorkflowsLocalStorageBase
from snakemake_executor_plugin_pilotage import ExecutorSettings


class TestSharedDisk(TestWorkflowsLocalStorageBase):
    """Workflows whose jobs share a disk with Snakemake."""

    __test__ = True

    @pytest.fixture
    def tmp_path(self, server: LocalServer, request: pytest.FixtureRequest) -> Path:
        """Where the jobs may write."""
        return server.shared / request.node.name

    def get_executor(self) -> str:
        """Return the plugin's name."""
        return "pilotage"

    def get_executor_settings(self) -> ExecutorSettings:
        """Return its options."""
        return ExecutorSettings()
