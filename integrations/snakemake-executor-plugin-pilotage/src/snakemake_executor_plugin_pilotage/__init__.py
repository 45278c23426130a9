"""Snakemake runs the jobs of a workflow on Pilotage: ``snakemake --executor pilotage --jobs 1000``."""

from dataclasses import dataclass, field
from typing import Optional

from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from .executor import Executor

__all__ = ["Executor", "ExecutorSettings", "common_settings"]


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options of Snakemake's command line, as ``--pilotage-url``. It reads no other form of ``Optional``."""

    url: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={"help": "Address of the Pilotage server (default: as of the command pilotage)."},
    )
    home: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={"help": "Folder with the token of the server (default: as of the command pilotage)."},
    )
    queue: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={"help": "Queues for rules without the resource pilotage_queue, separated by commas."},
    )
    site: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={"help": "Sites for rules without the resource pilotage_site, separated by commas."},
    )
    conda: Optional[str] = field(  # noqa: UP045
        default=None,
        metadata={
            "help": "Folder on the nodes of a conda environment or venv with Snakemake, for rules without "
            "the resource pilotage_conda. Jobs that share no disk with Snakemake need one."
        },
    )
    detach: bool = field(
        default=False,
        metadata={"help": "Let jobs go on when Snakemake is interrupted; the next run waits for them."},
    )


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=True,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    # They may be secrets, and everybody on a node reads a process's arguments.
    pass_envvar_declarations_to_cmd=False,
    auto_deploy_default_storage_provider=False,
    pass_group_args=True,
)
