#!/usr/bin/env bash
# git keeps a large tree on brickfs: init, add, commit, gc, fsck, clone.   git_test.sh tcp|rdma|file|memory
. "$(dirname "$0")/lib.sh"
source_tree
start_brick "$1" 3G
mount_brickfs
export HOME=$WORK GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=test GIT_AUTHOR_EMAIL=test@example GIT_COMMITTER_NAME=test GIT_COMMITTER_EMAIL=test@example

mkdir "$MNT/repo"
cp -a "$SOURCE_TREE/." "$MNT/repo/"
cd "$MNT/repo"
say "init, add, commit"
git -c init.defaultBranch=main init -q
git config gc.auto 0  # the one below is to find nobody else at it
git add -A -f
git commit -q -m 'the tree'
[ -z "$(git status --porcelain --ignored)" ] || die "git status is not clean after the commit"
say "change, gc, fsck"
find . -name '*.[ch]' -not -path './.git/*' | awk 'NR <= 500' | while read -r file; do echo '/* changed */' >>"$file"; done
git commit -q -a -m 'a change'
git gc -q
git fsck --full --strict >"$WORK/fsck.log" 2>&1 || die "git fsck fails"
say "clone"
git clone -q "$MNT/repo" "$MNT/clone"
diff -r --exclude=.git "$MNT/repo" "$MNT/clone" || die "the clone differs"
cd /
unmount_brickfs
if [ "$1" != memory ]; then
  check_volume
  mount_brickfs
  git -C "$MNT/repo" -c safe.directory='*' fsck --full >>"$WORK/fsck.log" 2>&1 || die "git fsck fails after a remount"
  unmount_brickfs
fi
