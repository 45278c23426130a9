#!/bin/sh
# Installs the real batch systems of tests/sites from Debian's packages; their daemons are not started here.
set -eu
packages="munge slurmctld slurmd slurm-client
openssh-server openssh-sftp-server openssh-client
gridengine-master gridengine-exec gridengine-client
nordugrid-arc-arex nordugrid-arc-arcctl nordugrid-arc-client nordugrid-arc-plugins-needed
nordugrid-arc-plugins-arcrest libxml-simple-perl"
missing=$(for name in $packages; do
  dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$name"
done)
[ -n "$missing" ] || exit 0
if ! command -v apt-get >/dev/null; then
  echo "only Debian's packages are known here; tests of what is not there are skipped: $missing"
  exit 0
fi
if [ "$(id -u)" != 0 ]; then
  echo "as root: apt-get install --no-install-recommends $missing"
  exit 1
fi
# No daemon starts by itself: the tests start theirs, in directories of their own.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get -qq update
# shellcheck disable=SC2086 -- names are words
apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing >/dev/null
