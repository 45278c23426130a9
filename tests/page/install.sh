#!/bin/sh
# Installs the browser of tests/page: Debian's chromium.
set -eu
[ -x /usr/bin/chromium ] && exit 0
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  echo "test-page: install the package chromium first; as root on Debian this script does" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null
