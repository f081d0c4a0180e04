#!/usr/bin/env bash
# An administrator's week with brickd: another size, another secret, too much memory, files in the wrong place; and mounts that are refused.
. "$(dirname "$0")/lib.sh"

# refused PATTERN COMMAND...: fails within 10 s with a line that matches.
refused() {
  local pattern=$1 status=0; shift
  timeout 10 "$@" >"$WORK/out" 2>"$WORK/refused.log" </dev/null || status=$?
  [ "$status" != 0 ] && [ "$status" != 124 ] || die "$*: exit $status"
  grep -qE "$pattern" "$WORK/refused.log" || die "$*: says: $(cat "$WORK/refused.log")"
  say "$(grep -E "$pattern" "$WORK/refused.log" | head -n 1)"
}
BRICKD_ONCE=("$BRICKD" --listen tcp://127.0.0.1:0 --foreground)
status_says() { timeout 10 "$BRICKCTL" status "$SOURCE" "${@:2}" | grep -E "$1" >/dev/null; }

say "a store grows, and becomes smaller as far as it can"
start_brickd --memory 64M --file "$WORK/store" --size 128M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs durable
head -c 60M /dev/urandom >"$MNT/old"
sum=$(sha256sum <"$MNT/old")
unmount_brickfs
kill_brickd TERM
start_brickd --memory 64M --file "$WORK/store" --size 384M
status_says 'brick capacity: +192 blocks' || die "the store is not larger: $(timeout 10 "$BRICKCTL" status "$SOURCE")"
mount_brickfs durable
head -c 200M /dev/urandom >"$MNT/new" || die "the new room cannot be used"
sync -f "$MNT/new"
[ "$(sha256sum <"$MNT/old")" = "$sum" ] || die "growing changed a file"
unmount_brickfs
check_volume
kill_brickd TERM
refused 'block\(s\) in use lie beyond' "${BRICKD_ONCE[@]}" --memory 64M --file "$WORK/store" --size 128M
refused 'made to grow to 114432M' "${BRICKD_ONCE[@]}" --memory 64M --file "$WORK/store" --size 1T
start_brickd --memory 64M --file "$WORK/store"
status_says 'brick capacity: +192 blocks' || die "a refused size changed the store"
kill_brickd TERM

say "SIGHUP has the secret read again, and ends nothing"
secret() { printf '%s\n' "$2" >"$WORK/$1"; chmod 600 "$WORK/$1"; }
secret brick first; secret first first; secret second second
start_brickd --memory 64M --secret-file "$WORK/brick"
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs "secret=$WORK/first"
secret brick second
status_says volatile --secret-file "$WORK/first" || die "the secret changed without SIGHUP"
kill -HUP "$BRICKD_PID"
within 5 status_says volatile --secret-file "$WORK/second" || die "SIGHUP did not bring the new secret"
if status_says volatile --secret-file "$WORK/first"; then die "the old secret still serves"; fi
echo still >"$MNT/file" || die "an open session did not go on"
chmod 644 "$WORK/brick"
kill -HUP "$BRICKD_PID"
within 5 grep -q 'the former secret stays in force' "$WORK/brickd.log" || die "nothing is said of a secret that cannot be taken"
status_says volatile --secret-file "$WORK/second" || die "the former secret did not stay in force"
unmount_brickfs
chmod 600 "$WORK/brick"

say "a secret is changed under a mount: two hold for a while, nothing is mounted anew"
secret brick second; secret mine second; secret forgets second
kill -HUP "$BRICKD_PID"
within 5 status_says volatile --secret-file "$WORK/mine" || die "the secret is not the former one"
mount_brickfs "secret=$WORK/mine"
printf 'third\n' >>"$WORK/brick"
kill -HUP "$BRICKD_PID"
within 5 grep -q '2 secrets of clients hold' "$WORK/brickd.log" || die "brickd does not say that two hold"
secret mine third
for file in mine forgets brick; do status_says volatile --secret-file "$WORK/$file" || die "two secrets do not hold: $file is refused"; done
secret brick third
kill -HUP "$BRICKD_PID"
within 5 status_says volatile --secret-file "$WORK/brick" || die "the third secret does not hold"
if status_says volatile --secret-file "$WORK/forgets"; then die "the second still serves"; fi
echo still >"$MNT/file" || die "an open session did not go on"
unmount_brickfs
kill_brickd TERM
start_brickd --memory 64M --file "$WORK/kept" --size 64M --secret-file "$WORK/brick"
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs "secret=$WORK/mine"
kill_brickd
secret brick fourth
restart_brickd
is_refused() { timeout 10 "$BRICKCTL" explain "$MNT" >"$WORK/out" 2>&1; grep -A 1 'broken: link: the brick refuses this client: the secret differs' "$WORK/out" | grep -F "$WORK/mine needs the line" >/dev/null; }
within 10 is_refused || die "explain says: $(cat "$WORK/out")"
echo later >"$MNT/file" &
later=$!
BACKGROUND_PIDS+=("$later")
secret mine fourth
within 15 test ! -d "/proc/$later" || die "a mount does not read its secret again"
[ "$(cat "$MNT/file")" = later ] || die "the file has: $(cat "$MNT/file")"
unmount_brickfs

say "a mount that is refused for good ends by umount, and by SIGTERM"
for how in umount TERM; do
  mount_brickfs "secret=$WORK/mine"
  pid=$(brickfs_pid)
  kill_brickd
  secret brick "fifth for $how"
  restart_brickd
  within 10 is_refused || die "explain says: $(cat "$WORK/out")"
  if [ "$how" = umount ]; then timeout 30 umount "$MNT" || die "umount fails"; else kill -TERM "$pid"; fi
  within 30 test ! -d "/proc/$pid" || die "a refused mount does not end by $how"
  secret mine "fifth for $how"
done
rm "$WORK/kept"
chmod 644 "$WORK/brick"
refused 'is open to others .*chmod 600' "$BRICKCTL" status "$SOURCE" --secret-file "$WORK/brick"
kill_brickd TERM

say "the journal hears how severe a line is, where it has standard error"
journal=$WORK/journal.log
: >"$journal"
export JOURNAL_STREAM; JOURNAL_STREAM=$(stat -c %d:%i "$journal")
"${BRICKD_ONCE[@]}" --memory 64M --secret-file "$WORK/second" --port-file "$WORK/port2" 2>>"$journal" &
BACKGROUND_PIDS+=($!)
within 60 test -s "$WORK/port2" || die "brickd does not start: $(cat "$journal")"
refused '^brick.*secret' "$BRICKCTL" status "tcp://127.0.0.1:$(cat "$WORK/port2")/default" --secret-file "$WORK/first"
kill "$!"
wait "$!" || die "brickd ends with $?"
"${BRICKD_ONCE[@]}" --memory 64M --secret-file "$WORK/brick" 2>>"$journal" && die "a secret that is open to others is taken"
"$BRICKFS" memory:64M "$MNT" -o unheard_of 2>>"$journal" && die "an unknown option is taken"
for line in '<6>brickd: info: serving at' '<4>brickd: warning: .* was refused: its secret' '<3>brickd: .*is open to others' '<3>brickfs: unknown option'; do
  grep -q "^$line" "$journal" || die "the journal does not get $line: $(cat "$journal")"
done
if grep -v '^<[34567]>' "$journal"; then die "the journal gets the above"; fi
unset JOURNAL_STREAM

say "a refused mount leaves the volume to everybody"
start_brickd --memory 64M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
refused 'volatile brick and -o durable' "$BRICKFS" "$SOURCE" "$MNT" -o durable
status_says 'holder: +none' || die "it is held: $(timeout 10 "$BRICKCTL" status "$SOURCE")"
timeout 30 "$BRICKCTL" bench "$SOURCE" --seconds 0.1 >/dev/null || die "bench is refused"
timeout 10 "$BRICKCTL" alloc "$SOURCE" 4M
refused 'no brickfs' "$BRICKFS" "$SOURCE" "$MNT"
status_says 'holder: +none' || die "a volume without a file system is held"
kill_brickd TERM

say "more memory than there is"
all=$(awk '/^(MemTotal|SwapTotal):/ { n += $2 } END { print int(n / 1024) }' /proc/meminfo)
refused 'this machine .* has [0-9.]+[MGT] with' "${BRICKD_ONCE[@]}" --memory $((2 * all))M
refused '999T of memory: this machine .* has [0-9.]+[MGT] with' "${BRICKD_ONCE[@]}" --memory 999T
refused '999T of memory: a brick has 128T at most' "${BRICKD_ONCE[@]}" --memory 999T --keep-memory "$WORK/kept"

say "no more threads than this user may have"
of_few_threads=(prlimit --nproc=1 setpriv --reuid=64999 --regid=64999 --clear-groups)
chmod 755 "$WORK"
mkdir "$WORK/few"
cp "$BRICKD" "$BRICKFS" "$WORK/few/"  # where everybody finds them
install -d -o 64999 -g 64999 "$WORK/few/mnt"
refused '^brickd: error: no thread can be started: .*ulimit -u' "${of_few_threads[@]}" "$WORK/few/brickd" "${BRICKD_ONCE[@]:1}" --memory 64M
refused '^brickfs: error: no thread can be started: .*ulimit -u' "${of_few_threads[@]}" "$WORK/few/brickfs" memory:64M "$WORK/few/mnt" -f

say "files in the wrong place"
echo precious >"$WORK/victim"
ln -s "$WORK/victim" "$WORK/ports"
refused 'port file .*a link is there' "${BRICKD_ONCE[@]}" --memory 64M --port-file "$WORK/ports"
ln -s "$WORK/nowhere" "$WORK/dangling"
refused 'a link that leads nowhere' "${BRICKD_ONCE[@]}" --file "$WORK/dangling" --size 64M
[ ! -e "$WORK/nowhere" ] && [ "$(cat "$WORK/victim")" = precious ] || die "a link was written through"
mkfifo -m 600 "$WORK/fifo"
refused 'not a regular file' "${BRICKD_ONCE[@]}" --file "$WORK/fifo" --size 64M
refused 'secret file .* is not a regular file' "${BRICKD_ONCE[@]}" --memory 64M --secret-file "$WORK/fifo"
refused 'port file .*not a regular file' "${BRICKD_ONCE[@]}" --memory 64M --port-file "$WORK/fifo"
if [ "$(id -u)" = 0 ]; then
  install -o 1234 -m 600 /dev/null "$WORK/theirs"
  refused 'belongs to another user' "${BRICKD_ONCE[@]}" --file "$WORK/theirs" --size 64M
  refused 'belongs to another user' "${BRICKD_ONCE[@]}" --memory 64M --secret-file "$WORK/theirs"
fi
ln -s "$WORK/store" "$WORK/linked"
timeout 10 "$BRICKCTL" status "file:$WORK/linked" >/dev/null || die "a link to a store of our own is not followed"

say "what is in memory only is written before the end, and the service manager told how far that is"
python3 - "$WORK/notify" >"$WORK/notified" <<'PYTHON' &
import socket, sys
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(sys.argv[1])
while True:
    print(manager.recv(4096).decode(), flush=True)
PYTHON
BACKGROUND_PIDS+=("$!")
within 20 test -S "$WORK/notify" || die "no socket"
BRICKD_PORT=0
NOTIFY_SOCKET=$WORK/notify start_brickd --memory 256M --file "$WORK/last" --size 256M
SOURCE=tcp://127.0.0.1:$BRICKD_PORT/default
mount_brickfs durable
head -c 64M /dev/urandom >"$MNT/file"
kill -9 "$(brickfs_pid)"  # what it could write to may be newer in memory
umount -l "$MNT"
kill_brickd TERM
within 10 grep -q '^STATUS=[0-9]* of [0-9]* blocks written to the store$' "$WORK/notified" || die "told: $(cat "$WORK/notified")"
grep -q '^EXTEND_TIMEOUT_USEC=300000000$' "$WORK/notified" || die "told: $(cat "$WORK/notified")"
restart_brickd
mount_brickfs durable
unmount_brickfs
check_volume

say "passed"
