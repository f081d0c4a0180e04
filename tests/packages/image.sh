# Sourced by tests of packages: a fresh Debian 12, which is booted in a container of its own.
#
# After make_image: IMAGE, a directory. Commands in it: in_image (before it is booted, with this machine's network), and after
# boot_image: inside (with a network of its own). The mirror is the one that this machine's apt uses.
. "$(dirname "${BASH_SOURCE[0]}")/../mount/lib.sh"
IMAGE=$WORK/image
LEADER=
NETWORK=(--private-network)  # of what is booted
ENVIRONMENT=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive)

skip() { printf '%s\n' "SKIPPED: $*"; exit 77; }

debian_mirror() {
  local files=(); shopt -s nullglob
  files=(/etc/apt/sources.lis[t] /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources)  # those that are there
  awk '$1 == "deb" || $1 == "URIs:" { for (i = 2; i <= NF; ++i) if ($i ~ /^https?:.*\/debian\/?$/) { print $i; exit } }' "${files[@]}" </dev/null
}

# A skip, if without a network something cannot be had.
need() {  # WHAT
  local mirror; mirror=$(debian_mirror)
  [ -n "$mirror" ] || skip "$1: this machine's apt knows no Debian mirror"
  /usr/lib/apt/apt-helper -o APT::Sandbox::User=root -o Acquire::http::Timeout=20 download-file "${mirror%/}/dists/bookworm/Release" "$WORK/Release" >/dev/null 2>&1 ||
    skip "$1: there is no network, the Debian mirror of this machine's apt does not answer"
}

# Made once, unpacked each time. What the packages depend on is fetched each time.
make_image() {
  local base=$CACHE/debian12.tar
  need "a Debian 12 and what the packages depend on"
  "$TESTS/../tools/install-packages" +debootstrap +systemd-container >"$WORK/install.log" 2>&1 || die "debootstrap and systemd-container cannot be installed"
  mkdir -p "$CACHE"
  exec 7>"$CACHE/.debian12-lock"
  flock 7
  if [ ! -e "$base" ]; then
    debootstrap --variant=minbase --include=systemd,systemd-sysv bookworm "$WORK/base" "$(debian_mirror)" >"$WORK/debootstrap.log" 2>&1 || die "debootstrap fails"
    tar -C "$WORK/base" --one-file-system -cf "$base.new" .
    mv "$base.new" "$base"
    rm -rf --one-file-system "$WORK/base"
  fi
  exec 7>&-
  mkdir "$IMAGE"
  tar -C "$IMAGE" -xf "$base"
}

container=(systemd-nspawn --quiet --directory="$IMAGE" --register=no --keep-unit)
in_image() { timeout 300 "${container[@]}" --pipe --resolv-conf=copy-host env -i "${ENVIRONMENT[@]}" "$@" </dev/null; }

boot_image() {
  "${container[@]}" "${NETWORK[@]}" --resolv-conf=off --bind=/dev/fuse --bind=/dev/autofs --boot >"$WORK/boot.log" 2>&1 &
  NSPAWN=$!
  BACKGROUND_PIDS+=("$NSPAWN")
  within 60 leader || die "the image does not boot"
  OTHER_PIDS=("$LEADER")  # it would outlive a systemd-nspawn that is killed, with all that runs in it
  within 300 system_is_up || die "the image does not come up: $(inside systemctl --failed --no-legend 2>&1)"
}
leader() {  # the first process of the container: not one that only makes it
  LEADER=$(cut -d' ' -f1 "/proc/$NSPAWN/task/$NSPAWN/children") && [ -n "$LEADER" ] && grep -q '^NSpid:.*[[:space:]]1$' "/proc/$LEADER/status"
}
system_is_up() { case $(inside systemctl is-system-running 2>&1) in running | degraded) ;; *) return 1 ;; esac; }
inside() { timeout 120 nsenter -t "$LEADER" -m -u -i -n -p -C -r -w -- env -i "${ENVIRONMENT[@]}" "$@"; }
power_off() {
  inside systemctl poweroff >/dev/null 2>&1 || true
  within 60 test ! -d "/proc/$NSPAWN" || die "the image does not shut down"
  OTHER_PIDS=()
}
