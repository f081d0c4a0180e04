#!/usr/bin/env bash
# brickd's configuration file: every option as on the command line, errors with file and line; and what a service manager is told.
. "$(dirname "$0")/../mount/lib.sh"
CONFIG=$WORK/brickd.conf
ended() { [ ! -d "/proc/$1" ]; }

# A file's content, which brickd refuses with a message that has these words.
refused() {  # CONTENT WORDS
  local status=0
  printf '%b' "$1" >"$CONFIG"
  timeout 20 "$BRICKD" --foreground --config "$CONFIG" >"$WORK/out" 2>"$WORK/err" || status=$?
  [ "$status" = 2 ] && [ "$(wc -l <"$WORK/err")" = 1 ] || die "'$1' ends with $status: $(cat "$WORK/err")"
  grep -qF -- "$2" "$WORK/err" || die "'$1' says: $(cat "$WORK/err"), not: $2"
}

say "errors are told with file and line"
refused 'memory = 8M\n\nmemroy = 8M\n' "$CONFIG:3: memroy: no such option"
refused '# a comment\nmemory = 1K\n' "$CONFIG:2: --memory: at least one block"
refused 'memory = 8M\nmemory = 16M\n' "$CONFIG:2: --memory"
refused 'memory =\n' "$CONFIG:1: memory: it has no value"
refused '[brick]\nmemory = 8M\n' "$CONFIG:1: not an option"
refused 'memory = 8M\nlisten = tcp://127.0.0.1\nlisten = http://here\n' "$CONFIG:3: --listen: a listen address is"
refused 'memory = 8M\nvolume = a:1G\nvolume = b c\n' "$CONFIG:3: --volume: a name has"
refused 'memory = 8M\nvolume = a:1X\n' "$CONFIG:2: --volume"
refused 'memory = 8M\nlog = loud\n' "$CONFIG:2: --log"
refused 'memory = 8M\nforeground = perhaps\n' "$CONFIG:2: "
refused 'memory = 8M\nconfig = /dev/null\n' "$CONFIG:2: config: no such option"
refused 'memory = 8M\n--log = info\n' "$CONFIG:2: not an option"
refused 'memory = 8M\nsize = 8M\n' "--size goes with --file"
if "$BRICKD" --config "$WORK/none" 2>"$WORK/err"; then die "a file that is not there is accepted"; fi
grep -qF "$WORK/none" "$WORK/err" || die "a file that is not there: $(cat "$WORK/err")"

say "what is shipped as an example is accepted, line by line"
sed 's/^#\([a-z]\)/\1/' "$TESTS/../tools/config/brickd.conf" >"$CONFIG"
[ "$(grep -c '^[a-z]' "$CONFIG")" -ge 7 ] || die "the example has no lines"
"$BRICKD" --config "$CONFIG" --version >"$WORK/out" 2>"$WORK/err" || die "brickd.conf: $(cat "$WORK/err")"
awk '/^# EXAMPLE/ { inside = 1 } inside && /^```/ { code = !code; next } inside && code' "$TESTS/../docs/man/brickd.conf.5.scd" >"$CONFIG"
[ -s "$CONFIG" ] || die "the manual page has no example"
"$BRICKD" --config "$CONFIG" --version >"$WORK/out" 2>"$WORK/err" || die "brickd.conf(5): $(cat "$WORK/err")"

say "every option in the file; what the command line has too counts there; the service manager is told"
python3 - "$WORK/notify" >"$WORK/notified" <<'PYTHON' &
import socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1])
manager.settimeout(60)
said = ""
while "STOPPING=1" not in said:
    said = manager.recv(4096).decode()
    print(said, flush=True)
PYTHON
MANAGER=$!
BACKGROUND_PIDS+=("$MANAGER")
within 20 test -S "$WORK/notify" || die "no socket"
printf 'a line\n' >"$WORK/secret"
chmod 600 "$WORK/secret"
cat >"$CONFIG" <<END
  # blanks do not matter
listen=tcp://127.0.0.1:0
listen =  tcp://127.0.0.1:0
memory = 1K-of-no-account-had-it-been-read
file = $WORK/store
size = 64M
volume = home:16M
volume = other
secret-file = $WORK/secret
port-file = $WORK/port
foreground = true
log = debug
END
refused "$(cat "$CONFIG")\n" "$CONFIG:4: --memory"  # each line is looked at, also where another value counts
sed -i 's/1K-of.*/32M/' "$CONFIG"
NOTIFY_SOCKET=$WORK/notify "$BRICKD" --config "$CONFIG" --log info 2>"$WORK/brickd.log" &
BRICKD_PID=$!
within 20 test -s "$WORK/port" || die "brickd does not start: $(cat "$WORK/brickd.log")"
[ "$(wc -l <"$WORK/port")" = 2 ] || die "not two listeners: $(cat "$WORK/port")"
if grep -q debug "$WORK/brickd.log"; then die "the command line does not count"; fi
port=$(head -n 1 "$WORK/port")
"$BRICKCTL" status "tcp://127.0.0.1:$port/home" --secret-file "$WORK/secret" >"$WORK/status" || die "no volume home"
"$BRICKCTL" status "tcp://127.0.0.1:$port/other" --secret-file "$WORK/secret" >/dev/null || die "no volume other"
if "$BRICKCTL" status "tcp://127.0.0.1:$port/home" >/dev/null 2>"$WORK/err"; then die "the secret-file is not read"; fi
[ "$(stat -c %s "$WORK/store")" -gt 0 ] || die "no store"
within 20 grep -q '^READY=1' "$WORK/notified" || die "not ready: $(cat "$WORK/notified")"
grep -qx "STATUS=serving at tcp://127.0.0.1:$port, tcp://127.0.0.1:$(tail -n 1 "$WORK/port")" "$WORK/notified" || die "$(cat "$WORK/notified")"
kill_brickd TERM
within 20 ended "$MANAGER" || die "the end is not told"
grep -q '^STOPPING=1' "$WORK/notified" || die "the end is not told: $(cat "$WORK/notified")"

say "a service manager that is not there changes nothing"
NOTIFY_SOCKET=$WORK/nowhere start_brickd --memory 8M
grep -q 'cannot tell the service manager' "$WORK/brickd.log" || die "not logged"
