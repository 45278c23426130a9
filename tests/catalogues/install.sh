#!/bin/sh
# Install a Rucio server from PyPI into build/rucio, for the tests of its catalogue. Run twice, it does no harm.
set -eu
cd "$(dirname "$0")/../.."
folder=build/rucio
"$folder/bin/python" -c "import rucio, gunicorn" 2>/dev/null && exit 0
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet uv
VIRTUAL_ENV="$PWD/$folder" "$folder/bin/uv" pip install --quiet rucio gunicorn
