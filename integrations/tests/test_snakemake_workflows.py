"""Snakemake's own tests of executors, both workflows, on a real server."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from server import LocalServer, answers, free_port, wait_for
from snakemake.common.tests import TestWorkflowsLocalStorageBase, TestWorkflowsMinioPlayStorageBase
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


class TestStorage(TestWorkflowsMinioPlayStorageBase):
    """Workflows whose jobs share no disk with Snakemake, only an S3 storage. Jobs cannot see their folder."""

    __test__ = True

    @pytest.fixture(autouse=True)
    def s3(self, server: LocalServer) -> Iterator[None]:
        """Run an S3 service."""
        folder, port = server.folder / "s3", free_port()
        folder.mkdir(exist_ok=True)
        command = [Path(sys.prefix) / "bin" / "rclone", "serve", "s3", folder, "--addr", f"127.0.0.1:{port}"]
        service = subprocess.Popen(
            [*command, "--auth-key", f"{self.access_key},{self.secret_key}", "--config", "/dev/null"]
        )
        self.port = port
        wait_for(lambda: answers(port), "the S3 service answers")
        try:
            yield
        finally:
            service.terminate()
            service.wait(60)

    @property
    def endpoint_url(self) -> str:
        """The address of the S3 service."""
        return f"http://127.0.0.1:{self.port}"

    def get_executor(self) -> str:
        """Return the plugin's name."""
        return "pilotage"

    def get_executor_settings(self) -> ExecutorSettings:
        """Return its options: where nodes have Snakemake."""
        return ExecutorSettings(conda=sys.prefix)

    def get_assume_shared_fs(self) -> bool:
        """Return whether there is a shared disk."""
        return False
