#!/bin/sh
# Install the systems that the integrations belong to into build/integrations, from PyPI, and the
# integrations themselves. Run twice, it does no harm.
set -eu
cd "$(dirname "$0")/.."
folder=build/integrations
cmp -s integrations/requirements.txt "$folder/installed.txt" && exit 0
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet uv
VIRTUAL_ENV="$PWD/$folder" "$folder/bin/uv" pip install --quiet --requirement integrations/requirements.txt \
  --editable . --editable integrations/snakemake-executor-plugin-pilotage
cp integrations/requirements.txt "$folder/installed.txt"
