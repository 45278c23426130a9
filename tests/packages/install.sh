#!/bin/sh
# Install what the tests of packages need: tools from PyPI into build/packages, and as root on Debian mmdebstrap,
# containers, shells, and an account without rights. Run twice, it does no harm.
set -eu
cd "$(dirname "$0")/../.."
folder=build/packages
packages="aardvark-dns crun fish groff iproute2 iptables mmdebstrap netavark podman systemd-container uidmap zsh"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  # shellcheck disable=SC2086 -- names are words
  dpkg-query -W $packages >/dev/null 2>&1 || {
    apt-get update --quiet=2
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install --quiet=2 --yes --no-install-recommends $packages >/dev/null
  }
  # podman runs as an account that has other accounts for the users of its containers.
  id pilotage-packages >/dev/null 2>&1 || useradd --create-home --home-dir /var/tmp/pilotage-packages --shell /bin/sh pilotage-packages
fi
cmp -s tests/packages/requirements.txt "$folder/installed.txt" && exit 0
python3 -m venv "$folder/tools"
"$folder/tools/bin/pip" install --quiet --disable-pip-version-check --requirement tests/packages/requirements.txt
cp tests/packages/requirements.txt "$folder/installed.txt"
