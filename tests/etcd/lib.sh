# Sourced by the tests that need etcd, beside mount/lib.sh: an etcd of the test's own on free ports, and several bricks.
# Ends the test with 77 where there is no etcd (tools/install-packages test).
. "$(dirname "${BASH_SOURCE[0]}")/../mount/lib.sh"
. "$TESTS/mount/json_lib.sh"
command -v etcd >/dev/null && command -v etcdctl >/dev/null || { echo "left out: there is no etcd here"; exit 77; }
export ETCDCTL_API=3
declare -A ETCD_PID BRICK_PID BRICK_PORT BRICK_KIND
ETCD_PORT=
ETCD_COMMAND=()
ETCDCTL=()
BRICK_SIZE=64M

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start_etcd NAME [OPTION]...: its port is ETCD_PORT. With ETCD_SCHEME=https the options have its certificate, and ETCDCTL what etcdctl needs.
start_etcd() {
  local name=$1 scheme=${ETCD_SCHEME:-http} try peer; shift
  for try in 1 2 3; do  # another may take a port before etcd does
    ETCD_PORT=$(free_port) peer=$(free_port)
    rm -rf "$WORK/etcd-$name"
    ETCD_COMMAND=(etcd --name "$name" --data-dir "$WORK/etcd-$name" --logger zap --log-level error --unsafe-no-fsync
      --listen-client-urls "$scheme://127.0.0.1:$ETCD_PORT" --advertise-client-urls "$scheme://127.0.0.1:$ETCD_PORT"
      --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer"
      --initial-cluster "$name=http://127.0.0.1:$peer" "$@")
    if run_etcd "$name"; then return; fi
    kill -9 "${ETCD_PID[$name]}" 2>/dev/null || true
  done
  die "etcd does not start: $(tail -n 1 "$WORK/etcd-$name.log")"
}
run_etcd() {  # NAME: what start_etcd started last, on the same ports and with what it has stored
  "${ETCD_COMMAND[@]}" >>"$WORK/etcd-$1.log" 2>&1 &
  ETCD_PID[$1]=$!
  BACKGROUND_PIDS+=("$!")
  within 15 etcd_answers "$1" "${ETCD_SCHEME:-http}"
}
etcd_answers() { timeout 5 etcdctl --endpoints "$2://127.0.0.1:$ETCD_PORT" "${ETCDCTL[@]}" endpoint health; }
kill_etcd() { kill -9 "${ETCD_PID[$1]}"; wait "${ETCD_PID[$1]}" 2>/dev/null || true; }

# start_brick_of_set NAME [BRICKD OPTION]...: or the same again on its port, of BRICK_SIZE, at BRICK_LISTEN (tcp://127.0.0.1). Durable, unless BRICK_KIND[NAME] is volatile.
start_brick_of_set() {
  local name=$1 store=(); shift
  [ "${BRICK_KIND[$name]:-durable}" = volatile ] || store=(--file "$WORK/$name.store" --size "$BRICK_SIZE")
  rm -f "$WORK/$name.port"
  "$BRICKD" --listen "${BRICK_LISTEN:-tcp://127.0.0.1}:${BRICK_PORT[$name]:-0}" --port-file "$WORK/$name.port" --memory "$BRICK_SIZE" "${store[@]}" \
    --foreground "$@" 2>>"$WORK/brickd-$name.log" &
  BRICK_PID[$name]=$!
  BACKGROUND_PIDS+=("$!")
  within 60 test -s "$WORK/$name.port" || die "brickd $name does not start: $(tail -n 1 "$WORK/brickd-$name.log")"
  BRICK_PORT[$name]=$(head -n 1 "$WORK/$name.port")
}
kill_brick_of_set() { kill -KILL "${BRICK_PID[$1]}"; wait "${BRICK_PID[$1]}" 2>/dev/null || true; }
brick() { printf 'tcp://127.0.0.1:%s\n' "${BRICK_PORT[$1]}"; }

# exits EXIT ARGUMENT...: of brickctl, with what it says in $WORK/out and $WORK/err.
exits() {
  local wanted=$1 status=0; shift
  timeout 60 "$BRICKCTL" "$@" >"$WORK/out" 2>"$WORK/err" </dev/null || status=$?
  [ "$status" = "$wanted" ] || die "brickctl $*: exit $status instead of $wanted: $(cat "$WORK/out" "$WORK/err")"
}
# refused EXIT PATTERN ARGUMENT...: one line on standard error that matches, nothing on standard output.
refused() {
  local exit=$1 pattern=$2; shift 2
  exits "$exit" "$@"
  [ "$(wc -l <"$WORK/err")" = 1 ] && [ ! -s "$WORK/out" ] || die "brickctl $*: not one line: $(cat "$WORK/out" "$WORK/err")"
  grep -qE "$pattern" "$WORK/err" || die "brickctl $*: says: $(cat "$WORK/err"), not: $pattern"
}
secret() { printf '%s\n' "$2" >"$WORK/$1"; chmod 600 "$WORK/$1"; }  # NAME LINE
# within_seconds SECONDS COMMAND...: it succeeds, and takes no longer.
within_seconds() {
  local end=$(($(now_ms) + $1 * 1000)); shift
  "$@"
  [ "$(now_ms)" -le "$end" ] || die "took too long: $*"
}
