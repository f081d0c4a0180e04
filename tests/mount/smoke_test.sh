#!/usr/bin/env bash
# Every operation of a regular file system, the everyday tools, and all of it still there after an unmount.
#   smoke_test.sh tcp|rdma|file|memory
. "$(dirname "$0")/lib.sh"
kind=$1
start_brick "$kind" 1G
chmod 755 "$WORK"  # for other users on their way to the mount
mount_brickfs allow_other

say "operations by system call"
chmod 777 "$MNT"
mkdir "$MNT/operations"
python3 "$TESTS/mount/operations.py" "$MNT/operations" || die "an operation answers wrongly"
rm -rf "$MNT/operations"

say "tools"
tree=/usr/include/linux
[ -z "$SMALL" ] || tree=$tree/netfilter
mkdir "$MNT/tools"
cp -a "$tree" "$MNT/tools/copy"
diff -r --no-dereference "$tree" "$MNT/tools/copy"
tar --format=posix -C "$MNT/tools" -cf "$MNT/tools/copy.tar" copy
mkdir "$MNT/tools/again"
tar -C "$MNT/tools/again" -xf "$MNT/tools/copy.tar"
[ "$(tree_checksum "$MNT/tools/copy")" = "$(tree_checksum "$MNT/tools/again/copy")" ] || die "tar loses something"
mv "$MNT/tools/again/copy" "$MNT/tools/moved"
ln "$MNT/tools/copy.tar" "$MNT/tools/link.tar"
[ "$(stat -c %h "$MNT/tools/copy.tar")" = 2 ] || die "a hard link is not counted"
dd if=/dev/urandom of="$MNT/tools/direct" bs=1M count=16 oflag=direct status=none
dd if="$MNT/tools/direct" bs=1M iflag=direct status=none | cmp - "$MNT/tools/direct" || die "O_DIRECT reads something else"

say "ACLs and extended attributes"
mkdir "$MNT/acl"
setfacl -m d:u:1234:rwx,u:1234:r-x "$MNT/acl"
echo secret >"$MNT/acl/file"
chmod 660 "$MNT/acl/file"
getfacl -cn "$MNT/acl/file" 2>/dev/null | grep '^user:1234:rw' >/dev/null || die "a default ACL is not inherited: $(getfacl -cn "$MNT/acl/file")"
setpriv --reuid 1234 --regid 1234 --clear-groups cat "$MNT/acl/file" >/dev/null || die "an ACL does not let its user in"
if setpriv --reuid 1235 --regid 1235 --clear-groups cat "$MNT/acl/file" 2>/dev/null; then die "an ACL lets others in"; fi
setfattr -n user.note -v kept "$MNT/acl/file"

df "$MNT" | tail -n 1 | grep "$MNT" >/dev/null || die "df does not know the mount"
[ "$(stat -f -c %T "$MNT")" = fuseblk ] || [ "$(stat -f -c %t "$MNT")" = 65735546 ] || die "not a FUSE file system"

if [ "$kind" != memory ]; then
  say "after an unmount and a mount"
  before=$(tree_checksum "$MNT")
  unmount_brickfs
  check_volume
  mount_brickfs allow_other
  [ "$(tree_checksum "$MNT")" = "$before" ] || die "the tree has changed"
  getfacl -cn "$MNT/acl/file" 2>/dev/null | grep '^user:1234:rw' >/dev/null || die "the ACL is lost"
  [ "$(getfattr --only-values -n user.note "$MNT/acl/file")" = kept ] || die "the attribute is lost"
fi
rm -rf "${MNT:?}"/*
unmount_brickfs
