#!/usr/bin/env bash
# Ten ordinary poweroffs of a Debian with systemd: files that nobody has synced are whole afterwards, however their volume was mounted. With
# `remote` the bricks are another machine's, and the network goes down with the system; with `local` they are the machine's own.
#
#   poweroff_test.sh remote|local [POWEROFFS]
[ -n "${BRICKFS_NAMESPACE:-}" ] || BRICKFS_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$@"
mkdir -p /run/systemd/nspawn
mount -t tmpfs nspawn /run/systemd/nspawn
. "$(dirname "$0")/image.sh"
LAYOUT=$1 POWEROFFS=${2:-10}
NS=brickfs-bricks-$$ SYSTEM=brickfs-system-$$  # network namespaces
SUBNET=10.$((RANDOM % 200 + 20)).$((RANDOM % 250))
# By what each volume is mounted, at /WAY: fstab, a unit, its first use, fstab with bg as its brick comes up after the boot, a shell outside of
# all units, a login, a service; fstab beside a coordinator of this machine.
WAYS=(fstab unit automount later hand login service shared)
SECRET=secret=/etc/brickfs/secret
OTHER=$WORK/other  # where another machine has the shared volume, too, if the bricks are remote

end_all() {
  local status=$?
  set +e
  ip netns del "$SYSTEM" 2>/dev/null
  ip netns del "$NS" 2>/dev/null
  (exit "$status")
  clean_up
}
trap end_all EXIT
state_of() { inside systemctl show --value -p "$1" "$2"; }
mounted() { inside grep -q " $1 fuse.brickfs " /proc/self/mounts; }

# What the packages bring, by hand: packages_test.sh is about these.
install_programs() {
  local libraries
  mapfile -t libraries < <(ldd "$BRICKFS" "$BRICKD" "$BUILD/tools/umount.fuse.brickfs" "$BRICKCTL" | awk '$2 == "=>" { print $3 }' | sort -u |
    while read -r file; do dpkg -S "*/${file##*/}"; done | sed 's/:.*//' | sort -u)
  in_image apt-get -q update >"$WORK/apt.log" 2>&1 || die "apt-get update in the image fails"
  in_image apt-get -q -y install --no-install-recommends dbus ifupdown iproute2 libpam-systemd procps "${libraries[@]}" >>"$WORK/apt.log" 2>&1 || die "what brickfs needs cannot be installed"
  install -s "$BRICKFS" "$BRICKD" "$BRICKCTL" "$IMAGE/usr/bin/"
  install -s "$BUILD/tools/umount.fuse.brickfs" "$IMAGE/usr/sbin/"
  ln -s ../bin/brickfs "$IMAGE/usr/sbin/mount.brickfs"
  cp "$TESTS"/../tools/debian/{brickd.target,{brickd,brickd@,brickfs-coordinator@}.service} "$IMAGE/lib/systemd/system/"
  mkdir -p "$IMAGE/var/log/journal"
  in_image useradd --system --home-dir /var/lib/brickd brickd || die "no user brickd"
  (umask 077; printf 'known to all machines of the test\n' >"$WORK/secret")
  mkdir "$IMAGE/etc/brickfs"
  in_image install -g brickd -m 640 /dev/null /etc/brickfs/secret
  cat "$WORK/secret" >"$IMAGE/etc/brickfs/secret"
}

brick() {  # NAME PORT: of another machine
  ip netns exec "$NS" "$BRICKD" --foreground --listen "tcp://$SUBNET.1:$2" --memory 256M --file "$WORK/$1" --size 2G --secret-file "$WORK/secret" "${WAYS[@]/#/--volume=}" 2>>"$WORK/brickd.log" &
  BACKGROUND_PIDS+=($!)
  LATE=$!
}

prepare_layout() {
  case $LAYOUT in
    remote)
      ip netns add "$NS" 2>/dev/null && ip netns add "$SYSTEM" || skip "there are no network namespaces here"
      ip -n "$NS" link add wire type veth peer name wire netns "$SYSTEM"
      ip -n "$NS" addr add "$SUBNET.1/24" dev wire
      ip -n "$NS" link set lo up
      ip -n "$NS" link set wire up
      ADDRESS=$SUBNET.1
      NETWORK=(--network-namespace-path="/run/netns/$SYSTEM" --capability=CAP_NET_ADMIN)
      printf 'auto lo wire\niface lo inet loopback\niface wire inet static\n  address %s.2/24\n' "$SUBNET" >"$IMAGE/etc/network/interfaces"
      brick early 20470
      brick own 20472
      ;;
    local)
      ADDRESS=127.0.0.1
      printf '%s\n' 'listen = tcp://127.0.0.1:20470' 'memory = 256M' 'file = /var/lib/brickd/store' 'size = 2G' 'secret-file = /etc/brickfs/secret' "${WAYS[@]/#/volume = }" >"$IMAGE/etc/brickfs/brickd.conf"
      printf '%s\n' 'listen = tcp://127.0.0.1:20471' 'memory = 256M' 'file = /var/lib/brickd/late/store' 'size = 2G' 'secret-file = /etc/brickfs/secret' 'volume = later' >"$IMAGE/etc/brickfs/late.conf"
      printf '%s\n' 'listen = tcp://127.0.0.1:20472' 'memory = 256M' 'file = /var/lib/brickd/own/store' 'size = 2G' 'secret-file = /etc/brickfs/secret' 'volume = shared' >"$IMAGE/etc/brickfs/own.conf"
      in_image systemctl -q enable brickd brickd@own || die "brickd cannot be enabled"
      ;;
    *) die "no layout is called $LAYOUT" ;;
  esac
}

prepare_mounts() {
  local way
  for way in "${WAYS[@]}"; do mkdir "$IMAGE/$way"; done
  cat >"$IMAGE/etc/fstab" <<FSTAB
tcp://$ADDRESS/fstab /fstab brickfs durable,_netdev,nofail,$SECRET 0 0
tcp://$ADDRESS/automount /automount brickfs durable,_netdev,nofail,x-systemd.automount,$SECRET 0 0
tcp://$ADDRESS:20471/later /later brickfs durable,_netdev,nofail,bg,$SECRET 0 0
tcp://$ADDRESS:20472/shared /shared brickfs durable,_netdev,nofail,share,$SECRET 0 0
FSTAB
  sed -e "s,192\.0\.2\.1/home,$ADDRESS/unit," -e 's,/home$,/unit,' "$TESTS/../tools/config/home.mount" >"$IMAGE/etc/systemd/system/unit.mount"
  mkdir "$IMAGE/payload"
  cat >"$IMAGE/etc/systemd/system/load.service" <<LOAD
[Unit]
RequiresMountsFor=${WAYS[*]/#//}
[Service]
KillMode=mixed
ExecStart=/payload/load ${WAYS[*]/#//}
LOAD
  cat >"$IMAGE/payload/load" <<'LOAD'
#!/bin/sh
# Copies, one after the other, each time to all volumes, to the end of a round; how many there are whole is known to the disk.
trap 'asked=1' TERM
number=0 asked=
until [ -n "$asked" ]; do
  number=$((number + 1))
  for place in "$@"; do cp /payload/block $place/load/$number || { echo "$place fails" >/payload/ended; exit 1; }; done
  echo $number >/payload/number.new && mv /payload/number.new /payload/number
done
echo fine >/payload/ended
LOAD
  cat >"$IMAGE/etc/systemd/system/held@.service" <<'HELD'
[Unit]
Description=a user of /%i that is not ordered after its mount
[Service]
KillMode=mixed
ExecStart=/payload/held %i
HELD
  cat >"$IMAGE/payload/held" <<'HELD'
#!/bin/sh
# Has a file of /WAY open, and writes to it until a second after it was asked to end; how many lines it has is known to the disk.
trap 'asked=1' TERM
exec 3>"/$1/held"
lines=0 asked= more=10
while [ "$more" -gt 0 ]; do
  echo "line $lines" >&3 || exit 1
  lines=$((lines + 1))
  [ -z "$asked" ] || more=$((more - 1))
  sleep 0.1
done
echo $lines >"/payload/lines.$1"
HELD
  chmod +x "$IMAGE/payload/load" "$IMAGE/payload/held"
  head -c 300000 /dev/urandom >"$IMAGE/payload/block"
  mkdir "$IMAGE/payload/tree"
  local number
  for number in $(seq 200); do head -c $((number * number * 5)) /dev/urandom >"$IMAGE/payload/tree/$number"; done
  printf 'SOURCE=tcp://%s:20472/shared\nOPTIONS=%s\n' "$ADDRESS" "$SECRET" >"$IMAGE/etc/brickfs/shared.coordinator"
  in_image systemctl -q enable unit.mount brickfs-coordinator@shared || die "unit.mount and the coordinator cannot be enabled"
}

boot() {  # ROUND
  # cgroups in turn as this machine has them, and in one hierarchy, as systemd has them by itself
  if (($1 % 2)); then unset SYSTEMD_NSPAWN_UNIFIED_HIERARCHY; else export SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1; fi
  boot_image
  within 30 mounted /fstab || die "/fstab is not mounted at boot: $(inside systemctl status fstab.mount)"
  within 30 mounted /unit || die "/unit is not mounted at boot: $(inside systemctl status unit.mount)"
  ! mounted /later || die "/later is mounted although its brick is not there"
  case $LAYOUT in
    remote) brick late 20471 ;;
    local) inside systemctl start brickd@late || die "brickd@late does not start" ;;
  esac
  inside ls /automount >/dev/null && mounted /automount || die "/automount is not mounted at its first use"
  inside brickfs "tcp://$ADDRESS/hand" /hand -o "$SECRET" || die "/hand cannot be mounted"
  inside systemd-run --quiet --wait --property=PAMName=login brickfs "tcp://$ADDRESS/login" /login -o "$SECRET" || die "/login cannot be mounted in a login session"
  inside systemd-run --quiet --property=Type=oneshot --remain-after-exit brickfs "tcp://$ADDRESS/service" /service -o "$SECRET" || die "/service cannot be mounted by a service"
  within 60 mounted /later || die "/later is not mounted, although its brick is there"
  share
}

# The machine's mount is a member of what the machine's coordinator has, and so is another machine's.
share() {
  within 30 mounted /shared || die "/shared is not mounted at boot: $(inside systemctl status shared.mount)"
  [ "$(state_of ActiveState brickfs-coordinator@shared)" = active ] || die "the coordinator does not run: $(inside systemctl status brickfs-coordinator@shared)"
  inside brickctl explain --json /shared | grep -E '"sharing": ?"member"' >/dev/null || die "/shared is no member: $(inside brickctl explain /shared)"
  [ "$LAYOUT" = remote ] || return 0
  mkdir -p "$OTHER"
  nsenter --net="/run/netns/$NS" "$BRICKFS" "tcp://$ADDRESS:20472/shared" "$OTHER" -o "shared,secret=$WORK/secret" || die "another machine cannot share"
}

# When the machine is gone the other one has all that was written there.
end_share() {  # POWEROFF
  [ "$LAYOUT" = remote ] || return 0
  timeout 60 diff -rq "$IMAGE/payload/tree" "$OTHER/tree" || die "poweroff $1: the other machine has not what was copied to /shared"
  timeout 60 cmp "$IMAGE/payload/block" "$OTHER/load/$(cat "$IMAGE/payload/number")" || die "poweroff $1: the other machine has not the last copy"
  timeout 60 umount "$OTHER" || die "the other machine cannot let /shared go"
}

end_late_brick() {
  [ "$LAYOUT" = remote ] || return 0
  kill "$LATE"
  wait "$LATE" || die "the brick of /later fails"
}

write_files() {
  local way
  for way in "${WAYS[@]}"; do
    inside rm -rf "/$way/tree" "/$way/load"
    inside mkdir "/$way/load"
  done
  rm -f "$IMAGE"/payload/{number,ended,lines.*}
  inside systemctl start load "${WAYS[@]/#/held@}" || die "the load does not start"
  for way in "${WAYS[@]}"; do inside cp -r /payload/tree "/$way/" || die "/$way cannot be written"; done
  within 30 test -s "$IMAGE/payload/number" || die "the load does not get on"
}

# What systemd, brickd, brickfs and the units of mounts said while the system went down: the end of it here, all of it beside the build.
lost() {  # WHAT
  local journal=$BUILD/poweroff-$LAYOUT.journal
  inside journalctl -q -b -1 -o short-monotonic --no-hostname >"$journal" || true
  say "journal of the boot that lost it, all of it in $journal"
  sed -n '/System is powering down\|Stopp\|Stopping\|nmount\|brick/p' "$journal" | tail -n 150
  cp "$WORK/boot.log" "$BUILD/poweroff-$LAYOUT.console"
  die "$1"
}

check_files() {
  local way number
  number=$(cat "$IMAGE/payload/number")
  [ "$number" -ge 1 ] || die "poweroff $1: nothing was copied until the end, so there is nothing to compare"
  [ "$(cat "$IMAGE/payload/ended")" = fine ] || lost "poweroff $1: a service that needs the mounts has lost one: $(cat "$IMAGE/payload/ended")"
  for way in "${WAYS[@]}"; do
    inside diff -rq /payload/tree "/$way/tree" || lost "poweroff $1: /$way has lost what was copied there"
    inside sh -c 'for number in $(seq '"$number"'); do cmp /payload/block '"/$way"'/load/$number || exit 1; done' ||
      lost "poweroff $1: /$way has lost what was copied there until the end"
    [ -s "$IMAGE/payload/lines.$way" ] || lost "poweroff $1: who had a file of /$way open could not write to its end"
    [ "$(inside sh -c "wc -l </$way/held")" = "$(cat "$IMAGE/payload/lines.$way")" ] ||
      lost "poweroff $1: /$way has lost what was written to an open file"
  done
  local first
  first=$(inside journalctl -q -b -1 -o cat | grep -E '^(Stopped brickfs-coordinator@shared|Stopping brickd(@own)?\.service)' | sed -n 1p)
  [[ $first == "Stopped brickfs-coordinator@shared"* ]] || lost "poweroff $1: a brick of this machine ends before the coordinator: $first"
  say "poweroff $1: $number copies until the end, in each of ${WAYS[*]}"
}

make_image
install_programs
prepare_layout
prepare_mounts
say "$POWEROFFS poweroffs, $LAYOUT bricks"
for round in $(seq "$POWEROFFS"); do
  boot "$round"
  [ "$round" = 1 ] || check_files $((round - 1))
  write_files
  power_off
  end_share "$round"
  end_late_brick
done
boot $((POWEROFFS + 1))
check_files "$POWEROFFS"
power_off
end_share "$((POWEROFFS + 1))"
