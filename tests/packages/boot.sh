#!/bin/sh
# Runs inside a root that systemd booted: installs the units as the page says, and writes what it sees.
set -eu
exec >/srv/out/log 2>&1
finish() {
  echo "$?" >/srv/out/code
  systemctl --no-block poweroff
}
trap finish EXIT
note() { echo "$*" >>/srv/out/notes; }
await() { # COMMAND, for a minute
  seconds=60
  until "$@"; do
    seconds=$((seconds - 1))
    [ "$seconds" -gt 0 ] || return 1
    sleep 1
  done
}
shown() { systemctl show --value --property "$2" "$1"; }

runuser -u postgres -- createuser pilotage
runuser -u postgres -- createdb --owner pilotage pilotage
install -D -m 600 /srv/test/pilotage.env /etc/pilotage/pilotage.env
echo PILOTAGE_URL=http://127.0.0.1:8471 >/etc/pilotage/pilotage-8471.env
install -m 644 /srv/test/federation.yaml /etc/pilotage
mkdir -p /etc/systemd/system/pilotage.service.d
printf '[Service]\nStateDirectory=pilotage-data\nWatchdogSec=10\nTimeoutAbortSec=2\n' >/etc/systemd/system/pilotage.service.d/test.conf

cd /srv
export PIP_NO_COMPILE=1 PIP_NO_INDEX=1 PIP_FIND_LINKS=/srv/wheels PIP_DISABLE_PIP_VERSION_CHECK=1
set -x
. /srv/test/page.sh
set +x

process=$(shown pilotage MainPID)
note "status $(shown pilotage StatusText)"
note "user $(ps -o user= -p "$process")"
note "limits $(grep -E '^(CapBnd|NoNewPrivs|Seccomp):' "/proc/$process/status" | tr -s '\t\n' ' ')"
export PILOTAGE_HOME=/var/lib/pilotage PILOTAGE_URL=http://127.0.0.1:8470
note "payload $(cd /tmp && timeout 120 /opt/pilotage/bin/pilotage run -- echo from a payload)"

systemctl enable --now pilotage@8471
note "states $(systemctl is-active pilotage pilotage@8471 pilotage-backup.timer | tr '\n' ' ')"
both_live() { [ "$(/opt/pilotage/bin/pilotage servers | grep -c ' live ')" = 2 ]; }
await both_live
systemctl start pilotage-backup
note "backups $(find /var/lib/pilotage-backup/ -name 'pilotage-*' -size +0 -perm 600 | wc -l)"

kill -STOP "$process"
restarted() { [ "$(shown pilotage NRestarts)" -ge 1 ] && systemctl is-active --quiet pilotage; }
await restarted
note "restarted after: $(journalctl --unit pilotage --output cat | grep -o 'Watchdog timeout' | head -n 1)"
systemctl stop pilotage pilotage@8471
note "ends $(shown pilotage Result) $(shown pilotage@8471 Result)"
