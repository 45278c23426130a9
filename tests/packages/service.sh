#!/bin/sh
# Debian's PostgreSQL and Prometheus, started as the images that compose.yaml names.
set -eu
[ $# = 0 ] || exec /usr/bin/prometheus "$@"
data=/var/lib/postgresql/data
programs=$(echo /usr/lib/postgresql/*/bin)
install -d -o postgres -g postgres -m 700 "$data"
install -d -o postgres -g postgres /var/run/postgresql
as_postgres() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
if [ ! -e "$data/PG_VERSION" ]; then
  install -o postgres -m 600 "$POSTGRES_PASSWORD_FILE" /tmp/password
  as_postgres "$programs/initdb" --pgdata "$data" --encoding UTF8 --locale C.UTF-8 --username "$POSTGRES_USER" --pwfile /tmp/password --auth-host scram-sha-256
  echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_DB" | as_postgres "$programs/postgres" --single -D "$data" postgres
fi
exec setpriv --reuid postgres --regid postgres --clear-groups "$programs/postgres" -D "$data" -c listen_addresses='*'
