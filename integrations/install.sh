#!/bin/sh
# Install the systems that the integrations belong to into build/integrations, from PyPI, and the
# integrations themselves. Run twice, it does no harm.
set -eu
cd "$(dirname "$0")/.."
folder=build/integrations
# The tutorial of Snakemake runs these three.
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { command -v bwa && command -v samtools && command -v bcftools; } >/dev/null; then
  apt-get update --quiet=2 && DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes bwa samtools bcftools >/dev/null
fi
cmp -s integrations/requirements.txt "$folder/installed.txt" && exit 0
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet uv
VIRTUAL_ENV="$PWD/$folder" "$folder/bin/uv" pip install --quiet --requirement integrations/requirements.txt \
  --editable '.[functions]' --editable integrations/snakemake-executor-plugin-pilotage \
  --editable integrations/snakemake-storage-plugin-pilotage \
  --editable integrations/parsl-executor-pilotage --editable integrations/dask-pilotage
# Parsl's own tests need an older pytest.
VIRTUAL_ENV="$PWD/$folder" "$folder/bin/uv" pip install --quiet --target "$folder/parsl-tests" pytest==8.4.2
cp integrations/requirements.txt "$folder/installed.txt"
