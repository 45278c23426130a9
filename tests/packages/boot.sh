#!/bin/sh
# Runs inside a root that systemd booted: does what the page on production says, and writes what it sees.
set -eu
exec >/srv/out/log 2>&1
finish() {
  code=$?
  [ "$code" = 0 ] || journalctl --no-pager --lines 200 --unit 'pilotage*' --unit nginx --unit prometheus --unit 'run-*' || true
  echo "$code" >/srv/out/code
  systemctl --no-block poweroff
}
trap finish EXIT
note() { echo "$*" >>/srv/out/notes; }
await() { # COMMAND, for ten minutes
  seconds=600
  until "$@"; do
    seconds=$((seconds - 1))
    [ "$seconds" -gt 0 ] || return 1
    sleep 1
  done
}
shown() { systemctl show --value --property "$2" "$1"; }

# What the reader has before: a name, an authority, and a certificate from it.
name=broker.example.org
echo "127.0.0.1 localhost $name" >/etc/hosts
cd /tmp
openssl req -quiet -x509 -newkey rsa:2048 -noenc -subj "/CN=an authority" -addext keyUsage=critical,keyCertSign -keyout authority.key -out /usr/local/share/ca-certificates/authority.crt
update-ca-certificates
openssl req -quiet -newkey rsa:2048 -noenc -subj "/CN=$name" -addext "subjectAltName=DNS:$name" -keyout /etc/ssl/broker.key -out request.pem
openssl x509 -req -in request.pem -copy_extensions copy -days 90 -CA /usr/local/share/ca-certificates/authority.crt -CAkey authority.key -out /etc/ssl/broker.pem
for unit in pilotage pilotage@; do
  mkdir -p /etc/systemd/system/$unit.service.d
  printf '[Service]\nWatchdogSec=30\nTimeoutAbortSec=2\nTimeoutStopSec=15min\n' >/etc/systemd/system/$unit.service.d/test.conf
done

cd /srv
export PIP_NO_COMPILE=1 PIP_NO_INDEX=1 PIP_FIND_LINKS=/srv/wheels PIP_DISABLE_PIP_VERSION_CHECK=1
set -x
. /srv/test/page.sh
set +x

process=$(shown pilotage MainPID)
note "status $(shown pilotage StatusText)"
note "user $(ps -o user= -p "$process")"
note "limits $(grep -E '^(CapBnd|NoNewPrivs|Seccomp):' "/proc/$process/status" | tr -s '\t\n' ' ')"
note "states $(systemctl is-active pilotage pilotage@8471 pilotage-backup.timer nginx prometheus | tr '\n' ' ')"
note "backups $(find /var/lib/pilotage-backup/ -name 'pilotage-*' -size +0 -perm 600 | wc -l)"
both_live() { [ "$(pilotage servers | grep -c ' live ')" = 2 ]; }
await both_live
python3 /srv/test/monitoring.py /opt/pilotage/share/pilotage/monitoring >>/srv/out/notes

# A person's payload, by TLS, outlives several looks of both servers at its pilot.
PILOTAGE_TOKEN=$(cat /var/lib/pilotage/token) PILOTAGE_URL=https://$name SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
export PILOTAGE_TOKEN PILOTAGE_URL SSL_CERT_FILE
note "payload $(cd /tmp && timeout 900 /opt/pilotage/bin/pilotage run -- sh -c 'sleep 20; echo from a payload')"
metrics='import urllib.request as u; print(u.urlopen("http://127.0.0.1:8470/metrics").read().decode())'
ended() {
  attempts=$(python3 -c "$metrics" | grep '^pilotage_attempts_total{.*} [1-9]' | sed 's/.*state="\([a-z]*\)".* /\1 /')
  [ -n "$attempts" ]
}
await ended
note "attempts $attempts"

# A client that has nothing of the server submits all the time; each server restarts as the page on upgrades says.
python3 -m venv /opt/client
/opt/client/bin/pip install --quiet /srv/dist/pilotage-*.whl
/opt/client/bin/python /srv/test/submissions.py /tmp/upgraded >>/srv/out/notes 2>/srv/out/submissions &
submissions=$!
submits() { grep -q submitted /srv/out/submissions; }
await submits
cd /
/opt/pilotage/bin/pip install --quiet --force-reinstall --no-deps /srv/test/next/pilotage-*.whl
set -x
. /srv/test/upgrade.sh
set +x
touch /tmp/upgraded
wait "$submissions" || { cat /srv/out/submissions && exit 1; }
versions='import json, sys; print(*(s["version"] for s in json.load(sys.stdin)["servers"] if s["state"] == "live"))'
note "versions $(pilotage servers --json | python3 -c "$versions")"

process=$(shown pilotage MainPID)
kill -STOP "$process"
restarted() { [ "$(shown pilotage NRestarts)" -ge 1 ] && systemctl is-active --quiet pilotage; }
await restarted
note "restarted after: $(journalctl --unit pilotage --output cat | grep -o 'Watchdog timeout' | head -n 1)"
systemctl stop pilotage pilotage@8471
note "ends $(shown pilotage Result) $(shown pilotage@8471 Result)"
