#!/bin/sh
# Installs the real batch systems of tests/sites, servers of tests/movers, the Prometheus of tests/monitoring, the PgBouncer of tests/store, the bwa and samtools of tests/examples, and the file system of tests/volatile_disk.py, from Debian's packages; their daemons are not started here.
# Where that cannot be done it says why: tests of what is not there are skipped.
set -u
packages="munge slurmctld slurmd slurm-client slurmrestd slurm-wlm-jwt-plugin
openssh-server openssh-sftp-server openssh-client
gridengine-master gridengine-exec gridengine-client
nordugrid-arc-arex nordugrid-arc-arcctl nordugrid-arc-client nordugrid-arc-plugins-needed
nordugrid-arc-plugins-arcrest libxml-simple-perl
bwa samtools e2fsprogs environment-modules nginx-core pgbouncer prometheus xrootd-server xrootd-client xrootd-plugins xrootd-server-plugins"
skipped() {
  echo "test-sites: $1; tests of what is missing are skipped" >&2
  exit 0
}
command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || skipped "only Debian's packages are known here"
missing=$(for name in $packages; do
  dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$name"
done)
[ -n "$missing" ] || exit 0
[ "$(id -u)" = 0 ] || skipped "not root; as root: apt-get install --no-install-recommends $missing"
# No daemon starts by itself: the tests start theirs, in directories of their own.
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
apt-get -qq update || skipped "apt-get update fails"
# shellcheck disable=SC2086 -- names are words
apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing >/dev/null ||
  skipped "apt-get cannot install $missing"
