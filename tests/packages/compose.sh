#!/bin/sh
# Runs in namespaces of its own, with a network that reaches no other machine: the services of compose.yaml.
# Arguments: a folder for containers, the folder of compose.yaml, the folder of podman-compose, the archive of the
# image of Pilotage, one of a root that has the other programs, and what asks the servers and Prometheus.
set -eu
store=$1 folder=$2 tools=$3 image=$4 services=$5 monitoring=$6
ip link set lo up
mount -t tmpfs tmpfs /run
mkdir -p "$store" /run/bin
cat >"$store/containers.conf" <<END
[containers]
cgroups = "disabled"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[engine.runtimes]
crun = ["/run/bin/runtime"]
[network]
network_backend = "netavark"
END
export CONTAINERS_CONF="$store/containers.conf" DISABLE_HC_SYSTEMD=true STORAGE_DRIVER=overlay
printf '#!/bin/sh\nexec /usr/bin/podman --root %s/images --runroot /run/containers "$@"\n' "$store" >/run/bin/podman
# podman asks for higher limits than root may set on some machines: the containers keep those of this process.
cat >/run/bin/runtime <<END
#!$tools/python
import json, os, sys
for option, key in (("--bundle", "process"), ("--process", None)):
    if option in sys.argv:
        path = sys.argv[sys.argv.index(option) + 1] + ("/config.json" if key else "")
        with open(path) as file:
            document = json.load(file)
        (document[key] if key else document).pop("rlimits", None)
        with open(path, "w") as file:
            json.dump(document, file)
os.execv("/usr/bin/crun", ["crun", *sys.argv[1:]])
END
chmod +x /run/bin/runtime
chmod +x /run/bin/podman
export PATH="/run/bin:$tools:$PATH"
podman load --quiet --input "$image"
podman import --quiet --change 'ENTRYPOINT=["/usr/local/bin/service"]' "$services" localhost/services

cd "$folder"
finish() {
  code=$?
  [ "$code" = 0 ] || podman-compose logs || true
  podman-compose down --volumes || true
  exit "$code"
}
trap finish EXIT
podman-compose up --detach
"$tools/python" "$monitoring"
podman exec pilotage_server-1_1 pilotage servers
