#!/usr/bin/env bash
# A volume striped over three bricks of different sizes: real work, filled to the last block, bricks that do not belong
# together, bricks and clients that are killed, and a volume of one brick that becomes a set.
. "$(dirname "$0")/lib.sh"
LOAD=$BUILD/tests/sync_load
declare -A PORT SIZE PID

# brick NAME [SIZE]: a durable one, or the same again on its port.
brick() {
  local name=$1
  SIZE[$name]=${2:-${SIZE[$name]}}
  rm -f "$WORK/$name.port"
  "$BRICKD" --listen "tcp://127.0.0.1:${PORT[$name]:-0}" --port-file "$WORK/$name.port" --memory "${SIZE[$name]}" \
    --file "$WORK/$name.store" --size "${SIZE[$name]}" --foreground 2>>"$WORK/brickd-$name.log" &
  PID[$name]=$!
  BACKGROUND_PIDS+=("${PID[$name]}")
  within 60 test -s "$WORK/$name.port" || die "brickd $name does not start: $(tail -n 1 "$WORK/brickd-$name.log")"
  PORT[$name]=$(head -n 1 "$WORK/$name.port")
}
kill_brick() { kill -KILL "${PID[$1]}"; wait "${PID[$1]}" 2>/dev/null || true; }
source_of() {  # NAME...
  local name text=
  for name in "$@"; do text+="+127.0.0.1:${PORT[$name]}"; done
  printf 'tcp://%s/default\n' "${text#+}"
}
refused() {  # SOURCE OPTIONS PATTERN
  local said
  if said=$(timeout 60 "$BRICKFS" "$1" "$MNT" -o "$2" 2>&1); then die "$1 is mounted"; fi
  [ "$(wc -l <<<"$said")" = 1 ] && grep -E "$3" <<<"$said" >/dev/null || die "$1: it says '$said', not $3"
}
kill_client() {
  local pid; pid=$(brickfs_pid)
  kill -9 "$pid"
  umount -i -l "$MNT"
}
used() { timeout 60 "$BRICKCTL" status --json "tcp://127.0.0.1:${PORT[$1]}/default" | python3 -c 'import json, sys; s = json.load(sys.stdin); print(s["used_bytes"] * 100 // s["capacity_bytes"])'; }

brick a 192M; brick b 96M; brick c 128M; brick d 96M; brick e 64M
SOURCE=$(source_of a b c)
mount_brickfs durable

say "the sizes add up"
total=$(($(stat -f -c '%b * %S' "$MNT") / 1048576))
[ "$total" -gt 370 ] && [ "$total" -le 416 ] || die "df shows $total MiB of 416"
mkdir "$MNT/keep"
for i in $(seq 1 100); do head -c $((i * 331)) /dev/urandom >"$MNT/keep/$i"; done
head -c 40M /dev/urandom >"$WORK/large"
cp "$WORK/large" "$MNT/keep/large"
sync "$MNT/keep/large"
kept=$(tree_checksum "$MNT/keep")
for name in a b c; do [ "$(used "$name")" -ge 8 ] || die "a large file leaves brick $name alone ($(used "$name") %)"; done

say "bricks of different sizes are used to the full"
if dd if=/dev/zero of="$MNT/fill" bs=1M status=none 2>"$WORK/dd.err"; then die "dd could write without end"; fi
grep -q 'No space left on device' "$WORK/dd.err" || die "dd says: $(cat "$WORK/dd.err")"
for name in b c; do [ "$(used "$name")" -ge 98 ] || die "brick $name is used by $(used "$name") % only"; done
[ "$(used a)" -ge 80 ] || die "the brick with the metadata is used by $(used a) % only"
[ "$(free_units)" -lt 256 ] || die "df still shows $(free_units) free units"
for subject in "$MNT" "$SOURCE"; do
  for name in b c; do
    explained=$(timeout 60 "$BRICKCTL" explain "$subject") && die "explain $subject: nothing is wrong with a full volume"
    grep "^warning: space: tcp://127.0.0.1:${PORT[$name]}/default: the .* \(has no block left\|has allocated all\)" <<<"$explained" >/dev/null ||
      die "explain $subject does not name brick $name, which is full: $explained"
  done
done
[ "$(tree_checksum "$MNT/keep")" = "$kept" ] || die "filling the volume changed other files"
rm "$MNT/fill"
has_free_mib() { [ "$(($(free_units) * 4 / 1024))" -gt "$1" ]; }
within 20 has_free_mib 300 || die "rm does not give it back: $(free_units) units"
unmount_brickfs
check_volume
[ "$(timeout 60 "$BRICKCTL" status "$SOURCE" | grep -c '^source:')" = 3 ] || die "brickctl status does not show three bricks"

say "what does not belong together is refused with one line"
refused "$(source_of a b)" durable "tcp://127.0.0.1:${PORT[a]}: the volume is on 3 bricks, 2 are named: tcp://127.0.0.1:${PORT[c]} is missing"
refused "$(source_of a c b)" durable "tcp://127.0.0.1:${PORT[c]}: is brick 3 of the volume and named as brick 2"
refused "$(source_of a b d)" durable "tcp://127.0.0.1:${PORT[d]}: is not brick 3 of this volume"
refused "tcp://127.0.0.1:${PORT[a]}+127.1:${PORT[a]}/default" durable "that is the same brick as tcp://127.0.0.1:${PORT[a]}"
refused "$(source_of a a)" durable "127.0.0.1:${PORT[a]} is named twice"
refused "$(source_of a b c d)" durable "tcp://127.0.0.1:${PORT[d]}: does not belong to this volume of 3 bricks"
refused "$(source_of a)" durable "first of the 3 bricks of a striped volume"
refused "$(source_of b)" durable "is brick 2 of the striped volume"
refused "$(source_of d b)" durable "tcp://127.0.0.1:${PORT[b]}: is brick 2 of the volume"
kill_brick c
refused "$(source_of a b c)" durable "tcp://127.0.0.1:${PORT[c]}: no brickd listens there"
status=0
timeout 30 "$BRICKCTL" explain "$(source_of a b c)" >"$WORK/explained" || status=$?
[ "$status" = 4 ] && [ "$(grep -c '^broken: link: ' "$WORK/explained")" = 1 ] && grep "^broken: link: tcp://127.0.0.1:${PORT[c]}/default: no brickd listens there" "$WORK/explained" >/dev/null ||
  die "explain: exit $status: $(cat "$WORK/explained")"
brick c
mount_brickfs durable
[ "$(tree_checksum "$MNT/keep")" = "$kept" ] || die "after a remount the files are others"

seed=${BRICKFS_SEED:-$$}
for victim in a b c; do
  say "brick $victim is killed under load and comes back: nobody sees it (seed $seed)"
  mkdir "$MNT/live-$victim" "$WORK/live-$victim"
  "$LOAD" run "$MNT/live-$victim" "$WORK/live-$victim" 3 "$seed" 4 &
  load=$!
  sleep 1
  kill_brick "$victim"
  sleep 0.5
  brick "$victim"
  wait "$load" || die "the load says $?"
  timeout 60 "$LOAD" verify "$MNT/live-$victim" "$WORK/live-$victim" live || die "brick $victim killed: not what was written"
done

for victims in "" b "b c" a "a b c"; do
  say "the client is killed under load, and with it: ${victims:-no brick} (seed $seed)"
  name=crash-${victims// /}
  mkdir "$MNT/$name" "$WORK/$name"
  sync "$MNT"
  "$LOAD" run "$MNT/$name" "$WORK/$name" 60 "$seed" 4 2>/dev/null &
  load=$!
  sleep 1.5
  kill_client
  for victim in $victims; do kill_brick "$victim"; done
  wait "$load" || true
  for victim in $victims; do brick "$victim"; done
  mount_brickfs durable
  timeout 60 "$LOAD" verify "$MNT/$name" "$WORK/$name" crash || die "client and ${victims:-no brick} killed: not what was synced"
  [ "$(tree_checksum "$MNT/keep")" = "$kept" ] || die "client and ${victims:-no brick} killed: other files have changed"
done
unmount_brickfs
check_volume

say "a volume of one brick becomes a set"
SOURCE=$(source_of d)
mount_brickfs durable
head -c 20M "$WORK/large" >"$MNT/one"
unmount_brickfs
refused "$(source_of d e)" durable "holds a volume of one brick: to spread it over these, ask for it"
refused "$(source_of d b)" durable,grow "is brick 2 of the volume"
SOURCE=$(source_of d e)
mount_brickfs durable,grow
cmp -n 20971520 "$MNT/one" "$WORK/large" || die "growing changed a file"
cp "$WORK/large" "$MNT/two"
sync "$MNT/two"
[ "$(used e)" -ge 10 ] || die "the new brick is used by $(used e) % only"
unmount_brickfs
refused "$(source_of d)" durable "first of the 2 bricks of a striped volume"
mount_brickfs durable
cmp "$MNT/two" "$WORK/large" || die "after a remount the file is another"
unmount_brickfs
check_volume

say "the store of a brick is replaced by its older copy: that is refused, unless it is accepted"
stop_brick() { kill -TERM "${PID[$1]}"; wait "${PID[$1]}" 2>/dev/null || true; }
stop_brick e
cp --sparse=always "$WORK/e.store" "$WORK/copy"
brick e
mount_brickfs durable
head -c 40M /dev/urandom | dd of="$MNT/two" bs=1M conv=notrunc,fsync iflag=fullblock status=none
unmount_brickfs
stop_brick e
cp --sparse=always "$WORK/copy" "$WORK/e.store"
brick e
older="tcp://127.0.0.1:${PORT[e]} is of an older store, of commit [0-9]+ of its volume, and was at [0-9]+; .*accept_older"
for mode in rw ro; do refused "$SOURCE" "durable,$mode" "$older"; done
status=0
timeout 60 "$BRICKCTL" check "$SOURCE" >"$WORK/checked" 2>&1 || status=$?
[ "$status" = 8 ] && grep -E "$older" "$WORK/checked" >/dev/null || die "check: exit $status: $(cat "$WORK/checked")"
mount_brickfs durable,accept_older
echo more >"$MNT/three"
head -c 20M /dev/urandom >"$MNT/four"
unmount_brickfs
mount_brickfs durable
[ "$(cat "$MNT/three")" = more ] || die "what was written after it was accepted is lost"
unmount_brickfs
check_volume
