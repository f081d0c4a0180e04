#!/usr/bin/env bash
# commands_test.sh readme|operations: the commands of a document, run as they stand, in order: README.md, "Use it", or docs/operations.md. Paths,
# addresses and ports are the document's, in a network, processes and a tree of mounts of their own, where brickfs is installed.
[ -n "${BRICKFS_NAMESPACE:-}" ] || BRICKFS_NAMESPACE=1 exec unshare --mount --net --pid --uts --fork --kill-child --mount-proc --propagation private "$0" "$@"
. "$(dirname "$0")/../mount/lib.sh"
document=${1:?readme or operations}

findmnt -n -r -t fuse.brickfs -o TARGET | while read -r other; do umount -i -l "$other"; done || true  # mounts of the host, as this namespace has them, too
ip link set lo up
ip address add 192.0.2.1/24 dev lo
hostname client
cp -a /etc /usr/sbin "$WORK"
mkdir -p "$WORK"/{home,srv,mnt.real,lib}
mount --bind "$WORK/etc" /etc
mount --bind "$WORK/sbin" /usr/sbin
mount --bind "$WORK/home" /home
mount --bind "$WORK/srv" /srv
mount --bind "$WORK/mnt.real" /mnt
mount --bind "$WORK/lib" /var/lib
mount -t tmpfs run /run
mount -t tmpfs installed /usr/local
PATH=/usr/local/sbin:/usr/local/bin:$PATH
printf '192.0.2.1 server\n' >>/etc/hosts
: >/etc/fstab
cmake --install "$BUILD" --prefix /usr/local --strip >"$WORK/install.log" 2>&1 || die "cmake --install fails: $(tail -n 3 "$WORK/install.log")"

trap 'status=$?; set +e; umount -l /home /srv /mnt /var/lib /etc /usr/sbin; (exit "$status"); clean_up' EXIT
case $document in
  readme) python3 "$TESTS/docs/run_commands.py" "$TESTS/../README.md" --section "Use it" --without-prompts --least 5 ;;
  operations) python3 "$TESTS/docs/run_commands.py" "$TESTS/../docs/operations.md" --least 15 ;;
  *) die "no such document: $document" ;;
esac
