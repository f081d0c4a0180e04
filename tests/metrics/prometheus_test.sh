#!/usr/bin/env bash
# Prometheus itself scrapes a mount: the numbers are there, its checker finds nothing to say, each alert fires in its tests, and one for real.
#   prometheus_test.sh          exit 77: there is no Prometheus, and no network to get it by
. "$(dirname "$0")/../mount/lib.sh"
. "$(dirname "$0")/../mount/json_lib.sh"
. "$(dirname "$0")/lib.sh"
EXAMPLES=$TESTS/../tools/config
without_complaint() { timeout 60 promtool "$@" >"$WORK/promtool" 2>&1 || die "promtool $*: $(cat "$WORK/promtool")"; }
get() { python3 -c 'import sys, urllib.parse, urllib.request
sys.stdout.write(urllib.request.urlopen(sys.argv[1] + urllib.parse.quote(sys.argv[2]), timeout=10).read().decode())' "$1" "${2:-}"; }

say "the rules, and each alert"
cp "$EXAMPLES/prometheus-alerts.yml" "$TESTS/metrics/alerts_test.yml" "$WORK"
without_complaint check rules "$WORK/prometheus-alerts.yml"
(cd "$WORK" && without_complaint test rules alerts_test.yml)
sed -n 's/^ *- alert: //p' "$WORK/prometheus-alerts.yml" | while read -r alert; do
  grep "alertname=\"$alert\"" "$WORK/alerts_test.yml" >/dev/null || die "$alert is not made to fire"
done

say "a mount's numbers, their names and their documentation"
start_brick tcp
mount_brickfs shared,metrics=127.0.0.1:0,max_metadata=1G,ring=on
mkdir "$WORK/member"
setsid "$BRICKFS" "$SOURCE" "$WORK/member" -f -o shared </dev/null >>"$WORK/member.log" 2>&1 &
within 60 is_mounted "$WORK/member" || die "no member: $(tail -n 1 "$WORK/member.log")"
echo something >"$WORK/member/of_member"
port=$(sed -n 's|.*metrics at http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' "$WORK/brickfs.log")
[ -n "$port" ] || die "the log does not name the port: $(cat "$WORK/brickfs.log")"
dd if=/dev/zero of="$MNT/file" bs=4k count=100 oflag=direct status=none
sync "$MNT/file"
sleep 1.5  # until there has been a checkpoint
get "http://127.0.0.1:$port/metrics" >"$WORK/metrics"
unmount_brickfs "$WORK/member"
timeout 60 promtool check metrics <"$WORK/metrics" >"$WORK/promtool" 2>&1 || die "promtool: $(cat "$WORK/promtool")"
[ ! -s "$WORK/promtool" ] || die "promtool: $(cat "$WORK/promtool")"
grep -q '^brickfs_operation_bytes_total{operation="write"} 409600$' "$WORK/metrics" || die "the bytes written: $(grep bytes_total "$WORK/metrics")"
grep -q '^brickfs_operation_duration_seconds_count{operation="fsync"} 1$' "$WORK/metrics" || die "syncs: $(grep fsync "$WORK/metrics")"
diff <(sed -n 's/^| `\(brickfs_[a-z_]*\)` | \([a-z]*\) |.*/\1 \2/p' "$TESTS/../docs/metrics.md" | grep -vE '^brickfs_(copies|etcd)_' | sort) <(sed -n 's/^# TYPE //p' "$WORK/metrics" | sort) ||
  die "docs/metrics.md (<) and what there is (>)"

# (Those of copies: tests/fuse/mount_metrics_test.cc.)

say "a port that is taken is a reason not to mount"
mkdir "$WORK/second"
status=0
timeout 20 "$BRICKFS" memory:64M "$WORK/second" -o "metrics=127.0.0.1:$port" 2>"$WORK/err" || status=$?
[ "$status" = 1 ] && grep -q "metrics=127.0.0.1:$port: Address already in use" "$WORK/err" || die "exit $status: $(cat "$WORK/err")"
status=0
timeout 20 "$BRICKFS" memory:64M "$WORK/second" -o metrics=9100 2>"$WORK/err" || status=$?
[ "$status" = 2 ] && grep -q 'ADDR:PORT' "$WORK/err" || die "exit $status: $(cat "$WORK/err")"

say "Prometheus scrapes it, and an alert fires when the brick is away"
sed 's/for: 30s/for: 1s/' "$EXAMPLES/prometheus-alerts.yml" >"$WORK/rules.yml"
cat >"$WORK/prometheus.yml" <<END
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yml]
scrape_configs:
  - job_name: brickfs
    static_configs: [{targets: ["127.0.0.1:$port"]}]
END
free_port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
prometheus --config.file="$WORK/prometheus.yml" --storage.tsdb.path="$WORK/tsdb" --web.listen-address="127.0.0.1:$free_port" 2>"$WORK/prometheus.log" &
BACKGROUND_PIDS+=("$!")
api() { get "http://127.0.0.1:$free_port/api/v1/query?query=" "$1" >"$WORK/answer"; }
is() { api "$1" && json "$WORK/answer" 'r["status"] == "success" and len(r["data"]["result"]) > 0'; }
within 30 is 'up{job="brickfs"} == 1' || die "not scraped: $(tail -n 3 "$WORK/prometheus.log")"
within 10 is 'brickfs_link_state{state="connected"} == 1' || die "link: $(cat "$WORK/answer")"
python3 -c 'import json, sys
for panel in json.load(open(sys.argv[1]))["panels"]:
    for target in panel["targets"]: print(target["expr"])' "$EXAMPLES/grafana-dashboard.json" |
  sed 's/\$__rate_interval/1m/g; s/\$instance/.*/g' >"$WORK/expressions"
tells_instances_apart "$EXAMPLES/grafana-dashboard.json" || die "the dashboard mixes mounts up"
[ "$(wc -l <"$WORK/expressions")" -ge 12 ] || die "the dashboard has few panels"
while read -r expression; do
  api "$expression" && json "$WORK/answer" 'r["status"] == "success"' || die "the dashboard asks $expression: $(cat "$WORK/answer")"
  for name in $(grep -o 'brickfs_[a-z_]*' <<<"$expression"); do
    grep -E "^${name}[{ ]" "$WORK/metrics" >/dev/null || die "the dashboard asks for $name, which there is not"
  done
done <"$WORK/expressions"
kill_brickd
within 30 is 'ALERTS{alertname="BrickfsLinkDown", alertstate="firing"}' || die "no alert: $(cat "$WORK/answer")"
restart_brickd
gone() { api 'ALERTS{alertname="BrickfsLinkDown"}' && json "$WORK/answer" 'r["data"]["result"] == []'; }
within 30 gone || die "the alert stays: $(cat "$WORK/answer")"
unmount_brickfs
