# shellcheck shell=bash
# Sourced: what a core dump of a process would have.

# dumped PID FILE...: a core dump of the process would have a file's bytes, or a part of them.
dumped() {
  python3 - "$@" <<'PYTHON'
import re, sys
pid, secrets = sys.argv[1], [open(path, "rb").read() for path in sys.argv[2:]]
parts = [secret[:16] for secret in secrets] + [secret[-16:] for secret in secrets]
where, begin, end, found = "", 0, 0, []
searched = 0
with open(f"/proc/{pid}/smaps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
    for line in maps:
        if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) (.*)", line):
            begin, end, rights, where = int(match[1], 16), int(match[2], 16), match[3], match[4]
        elif line.startswith("VmFlags:") and "w" in rights and " dd" not in line and end - begin < 1 << 28:
            try:
                memory.seek(begin)
                data = memory.read(end - begin)
            except OSError:
                continue
            searched += len(data)
            found += [where for part in parts if part in data]
assert searched > 1 << 16, f"{searched} bytes of the process could be read"
print("\n".join(found))
sys.exit(0 if found else 1)
PYTHON
}
kept_out() { local what=$1; shift; if dumped "$@" >"$WORK/dumped"; then die "a core dump of $what would have a secret: $(cat "$WORK/dumped")"; fi; }
