#!/bin/sh
# Runs in namespaces of its own, with a network that reaches no other machine: the services of compose.yaml.
# Arguments: a folder for containers, the folder of compose.yaml, the folder of podman-compose, the archive of the
# image of Pilotage, and one of a root that has the other programs.
set -eu
store=$1 folder=$2 tools=$3 image=$4 services=$5
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
"$tools/python" - <<'END'
import json
import sys
import time
import urllib.request


def read(address):
    with urllib.request.urlopen(f"http://127.0.0.1:{address}", timeout=10) as answer:
        return json.load(answer)


def await_(condition, seconds=120):
    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except OSError as error:
            reason = error
        if time.monotonic() > end:
            sys.exit(f"not within {seconds} s: {condition.__name__}")
        time.sleep(1)


def first_server():
    return read("8470/api/v1/health/ready")


def second_server():
    return read("8471/api/v1/health/ready")


def metrics_of_both_servers():
    series = read("9090/api/v1/query?query=up%7Bjob%3D%22pilotage%22%7D")["data"]["result"]
    return [one["value"][1] for one in series] == ["1", "1"]


def the_alerts_of_pilotage():
    groups = read("9090/api/v1/rules")["data"]["groups"]
    return sum(len(group["rules"]) for group in groups) >= 16


for condition in (first_server, second_server, metrics_of_both_servers, the_alerts_of_pilotage):
    await_(condition)
    print(condition.__name__, flush=True)
END
podman exec pilotage_server-1_1 pilotage servers
