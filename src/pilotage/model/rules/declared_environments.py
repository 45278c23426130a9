"""Environments that tasks declare: modules and a conda environment, entered before the command runs."""

from pilotage.model.records.spec import TaskSpec

_ENTER = """\
prefix=$1 count=$2
shift 2
if [ "$count" -gt 0 ]; then
    for file in /etc/profile.d/*lmod*.sh /etc/profile.d/modules.sh "${LMOD_PKG:-}/init/sh" \\
            "${MODULESHOME:-}/init/sh"; do
        command -v module >/dev/null 2>&1 && break
        if [ -r "$file" ]; then . "$file"; fi
    done
    command -v module >/dev/null 2>&1 || { echo "modules: this node has no command module" >&2; exit 127; }
fi
while [ "$count" -gt 0 ]; do
    module load "$1" || { echo "modules: $1 cannot be loaded on this node" >&2; exit 127; }
    count=$((count - 1))
    shift
done
if [ -n "$prefix" ]; then
    if [ ! -d "$prefix/bin" ]; then
        echo "conda: no environment at $prefix on this node, or containment hides it (readable_paths)" >&2
        exit 127
    fi
    CONDA_PREFIX=$prefix PATH=$prefix/bin:$PATH
    export CONDA_PREFIX PATH
fi
exec "$@"
"""


def entered(spec: TaskSpec) -> tuple[str, ...]:
    """Return the command of a payload inside the environments that its task declares.

    It ends with 127 and a sentence on standard error where the node lacks one.
    """
    if not spec.command or not (spec.conda or spec.modules):
        return spec.command
    count = str(len(spec.modules))
    return "sh", "-c", _ENTER, "environment", spec.conda, count, *spec.modules, *spec.command
