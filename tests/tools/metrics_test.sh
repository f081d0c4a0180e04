#!/usr/bin/env bash
# brickd's metrics: promtool has nothing to say of them; docs/metrics.md, the alerts and the dashboard speak of those that there are; they say what has happened; Prometheus itself
# scrapes a brickd, and an alert fires.
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/../metrics/lib.sh"
CONFIG=$TESTS/../tools/config

say "alert rules"
promtool check rules "$CONFIG/prometheus-brickd-alerts.yml"
sed "s|ALERTS|$CONFIG/prometheus-brickd-alerts.yml|" "$TESTS/tools/brickd_alerts.yml" >"$WORK/alerts_test.yml"
promtool test rules "$WORK/alerts_test.yml"
for alert in $(sed -n 's/^ *- alert: //p' "$CONFIG/prometheus-brickd-alerts.yml"); do
  grep -q "alertname: $alert$" "$WORK/alerts_test.yml" || die "no test makes $alert fire"
  grep -q "^| $alert |" "$TESTS/../docs/metrics.md" || die "docs/metrics.md has no $alert"
done

say "a brick with some history"
printf 'of the clients\n' >"$WORK/clients"; printf 'of the administrator\n' >"$WORK/admin"; chmod 600 "$WORK/clients" "$WORK/admin"
start_brickd --memory 16M --file "$WORK/store" --size 64M --volume small:8M --secret-file "$WORK/clients" --admin-secret-file "$WORK/admin" --metrics 127.0.0.1:0
METRICS=http://127.0.0.1:$(tail -n 1 "$WORK/port")
BRICK=tcp://127.0.0.1:$BRICKD_PORT
ctl() { timeout 60 "$BRICKCTL" "$@" --secret-file "$WORK/clients"; }
ctl alloc "$BRICK/small" 0 4
ctl map "$BRICK/small" 0 4 >/dev/null 2>&1
ctl bench "$BRICK/default" --seconds 0.3 --size 64K --span 16M >/dev/null  # all the memory that there is
if timeout 10 "$BRICKCTL" status "$BRICK/default" 2>/dev/null; then die "no secret is asked"; fi
if ctl status "$BRICK/nosuch" 2>/dev/null; then die "a volume that is not"; fi
timeout 10 "$BRICKCTL" volume create "$BRICK" made:4M --admin-secret-file "$WORK/admin"

say "promtool check metrics"
scrape() { python3 -c 'import sys,urllib.request; sys.stdout.write(urllib.request.urlopen(sys.argv[1] + "/metrics", timeout=10).read().decode())' "$METRICS" >"$WORK/metrics"; }
scrape
promtool check metrics <"$WORK/metrics" >"$WORK/said" 2>&1 || die "promtool: $(cat "$WORK/said")"
[ ! -s "$WORK/said" ] || die "promtool says: $(cat "$WORK/said")"

say "documents, alerts and dashboard speak of what there is"
python3 - "$WORK/metrics" "$TESTS/../docs/metrics.md" "$CONFIG/prometheus-brickd-alerts.yml" "$CONFIG/grafana-brickd.json" <<'PYTHON'
import json, re, sys
text, document, alerts, dashboard = (open(path).read() for path in sys.argv[1:])
kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
documented = dict(re.findall(r"^\| `((?:brickd|process)_\w+)` \| (\w+) \|", document, re.M))
assert kinds == documented, set(kinds.items()) ^ set(documented.items())
known = set(kinds) | {f"{name}_{part}" for name, kind in kinds.items() if kind == "histogram" for part in ("bucket", "count", "sum")}
expressions = [target["expr"] for panel in json.loads(dashboard)["panels"] for target in panel["targets"]]
for name in set(re.findall(r"\b(?:brickd|process)_\w+", alerts + " ".join(expressions))):
    assert name in known, name

def value(name, **labels):
    found = [float(number) for stated, number in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", text, re.M)
             if all(f'{label}="{wanted}"' in stated for label, wanted in labels.items())]
    assert len(found) == 1, (name, labels, found)
    return found[0]

MIB = 1 << 20
assert value("brickd_volume_capacity_bytes", volume="small") == 8 * MIB == value("brickd_volume_used_bytes", volume="small")
assert value("brickd_volume_capacity_bytes", volume="default") == 64 * MIB
assert value("brickd_volume_used_bytes", volume="made") == 0 == value("brickd_volume_held", volume="made")
assert value("brickd_used_bytes") == 8 * MIB and value("brickd_memory_bytes") == 16 * MIB
assert value("brickd_call_duration_seconds_count", call="alloc", transport="tcp") >= 2
assert value("brickd_call_duration_seconds_sum", call="commit", transport="tcp") > 0
assert value("brickd_call_duration_seconds_bucket", call="administer", le=r"+Inf") == 1
assert value("brickd_commits_total") >= 1
assert value("brickd_transferred_bytes_total", direction="write", transport="tcp") >= 16 * MIB
assert value("brickd_transferred_bytes_total", direction="read", transport="tcp") == 64 * 1024 * value("brickd_transfers_total", direction="read", transport="tcp") > 0
assert value("brickd_block_evictions_total") > 0 and value("brickd_block_write_backs_total") > 0
assert value("brickd_connections_refused_total", reason="secret", transport="tcp") == 1
assert value("brickd_connections_refused_total", reason="no_volume", transport="tcp") == 1
assert value("brickd_store_errors_total") == 0 == value("brickd_store_failed")
assert value("brickd_sessions", mode="exclusive") == 0
PYTHON

tells_instances_apart "$CONFIG/grafana-brickd.json" || die "the dashboard mixes bricks up"

say "no other page, and no other method"
python3 - "$METRICS" <<'PYTHON'
import sys, urllib.error, urllib.request
for path, data in (("/", None), ("/metrics/", None), ("/../etc/passwd", None), ("/metrics", b"x" * 100)):
    try:
        urllib.request.urlopen(sys.argv[1] + path, data, timeout=10)
        sys.exit(f"{path}: answered")
    except urllib.error.HTTPError as error:
        assert error.code in (400, 404, 405), error
PYTHON
status=0; timeout 10 "$BRICKD" --foreground --memory 16M --listen tcp://127.0.0.1:0 --metrics "${METRICS#http://}" 2>"$WORK/err" || status=$?
[ "$status" = 1 ] && grep -q 'cannot serve metrics at .*in use' "$WORK/err" || die "a port that is taken: exit $status: $(cat "$WORK/err")"
status=0; timeout 10 "$BRICKD" --foreground --memory 16M --metrics 9420 2>"$WORK/err" || status=$?
[ "$status" = 2 ] && grep -q 'ADDR:PORT' "$WORK/err" || die "no address: exit $status: $(cat "$WORK/err")"

say "Prometheus scrapes it, and an alert fires"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
sed 's/for: .*m$/for: 1s/' "$CONFIG/prometheus-brickd-alerts.yml" >"$WORK/alerts.yml"
cat >"$WORK/prometheus.yml" <<CONFIG
global: {scrape_interval: 1s, evaluation_interval: 1s}
scrape_configs:
  - job_name: brickd
    static_configs: [{targets: ["${METRICS#http://}"]}]
rule_files: ["$WORK/alerts.yml"]
CONFIG
prometheus --config.file="$WORK/prometheus.yml" --storage.tsdb.path="$WORK/tsdb" --web.listen-address="127.0.0.1:$port" >"$WORK/prometheus.log" 2>&1 &
BACKGROUND_PIDS+=("$!")
fires() {  # ALERT VOLUME
  python3 - "$port" "$@" <<'PYTHON'
import json, sys, urllib.request
port, alert, volume = sys.argv[1:]
told = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/alerts", timeout=5))["data"]["alerts"]
firing = [(one["labels"]["alertname"], one["labels"].get("volume", "")) for one in told if one["state"] == "firing"]
sys.exit((alert, volume) not in firing)
PYTHON
}
within 60 fires BrickdVolumeNearlyFull small || die "no alert of a volume that is full"
if fires BrickdVolumeNearlyFull default; then die "an alert of a volume that is empty"; fi
timeout 10 "$BRICKCTL" volume resize "$BRICK" small:32M --admin-secret-file "$WORK/admin" 2>"$WORK/err"
quiet() { ! fires BrickdVolumeNearlyFull small; }
within 30 quiet || die "the alert stays"
kill_brickd
within 30 fires BrickdDown "" || die "no alert of a brickd that is gone"

say "passed"
