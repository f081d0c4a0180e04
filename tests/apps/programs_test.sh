#!/usr/bin/env bash
# Programs, scripts and shared libraries on brickfs: built, run, replaced and removed while they run, busy while they are written to.
#   programs_test.sh [tcp|file|memory]
. "$(dirname "$0")/lib.sh"
need g++
kind=${1:-file}
start_brick "$kind" 512M
mount_brickfs allow_other
cd "$MNT"

say "a program and a library of its own"
cat >part.c <<'END'
static const char padding[3 << 20] = {1};
int answer(void) { return padding[0] + 41; }
END
cat >main.c <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char** argv) {
  void* library = dlopen(argv[1], RTLD_NOW);
  int (*answer)(void) = library ? (int (*)(void))dlsym(library, "answer") : 0;
  if (!answer) { puts(dlerror()); return 1; }
  for (int waits = argc > 2 ? 100 : 0; waits > 0 && access(argv[2], F_OK) != 0; --waits) usleep(100000);
  return answer() == 42 ? 0 : 2;
}
END
gcc -shared -fPIC -o libpart.so part.c
gcc -o main main.c
./main ./libpart.so || die "the program"

say "replaced and removed while they run"
./main ./libpart.so "$MNT/go" & first=$!
sleep 0.3
sed 's/41/43/' part.c >part2.c
gcc -shared -fPIC -o new.so part2.c && mv new.so libpart.so   # as package managers do: by a new file
rm main
(gcc -o main main.c)
./main ./libpart.so && die "the old library is still used"
echo 3 >/proc/sys/vm/drop_caches                            # pages of the removed files come from brickfs again
touch go
wait "$first" || die "what ran when it was replaced ends with $?"

say "busy while written to, and not to be written to while busy"
cp main busy
exec 5>>busy
status=0; ./busy ./libpart.so 2>/dev/null || status=$?
exec 5>&-
[ "$status" = 126 ] || die "a program that is open for writing can be run (exit $status)"
rm -f go; ./busy ./libpart.so "$MNT/go" & first=$!
sleep 0.2
if echo x 2>/dev/null >>busy; then die "a running program can be written to"; fi
if truncate -s 0 busy 2>/dev/null; then die "a running program can be truncated"; fi
touch go; wait "$first" || true
echo >>busy || die "busy for ever"

say "scripts, and interpreters on brickfs"
cp "$(readlink -f "$(command -v bash)")" shell
printf '#!%s\necho "$0 $1"\n' "$MNT/shell" >script
chmod +x script
[ "$(./script with)" = "./script with" ] || die "a script"
printf '#!%s\n' "$MNT/script" >nested && chmod +x nested
./nested >/dev/null || die "a script of a script"
chmod 644 script
if ./script 2>/dev/null; then die "runs without permission"; fi

say "all programs of /bin, from here"
mkdir bin
cp -L /bin/{ls,cat,cp,mv,rm,date,sed,grep,tar,gzip} bin/
mkdir lib && ldd bin/* | awk '$3 ~ "^/" { print $3 }' | sort -u | xargs -I{} cp -L {} lib/
for program in bin/*; do LD_LIBRARY_PATH=$MNT/lib "$program" --version >/dev/null || die "$program"; done
LD_LIBRARY_PATH=$MNT/lib bin/tar -cf all.tar bin lib
LD_LIBRARY_PATH=$MNT/lib bin/tar -df all.tar || die "tar"
cd /

say "file capabilities and set-uid programs of another user"
cp "$(command -v id)" "$MNT/bin/id"
chown 1234 "$MNT/bin/id" && chmod 4755 "$MNT/bin/id"
[ "$("$MNT/bin/id" -u)" = 1234 ] || die "a set-uid program"
unmount_brickfs
if [ "$kind" != memory ]; then
  check_volume
  mount_brickfs nosuid,allow_other
  [ "$("$MNT/bin/id" -u)" = 0 ] || die "nosuid does not hold"
  unmount_brickfs
  mount_brickfs noexec
  if "$MNT/bin/date" 2>/dev/null; then die "noexec does not hold"; fi
  unmount_brickfs
fi
