# Sourced by the tests of what brickctl prints with --json.

# A condition on what FILE has, as `r`: FILE PYTHON.
json() { python3 -c 'import json,sys; r=json.loads(open(sys.argv[1]).read()); sys.exit(0 if eval(sys.argv[2]) else 1)' "$1" "$2"; }

# FILE has one line of JSON with just the fields that docs/json.md has for it, in their order (of `state`, in any): SECTION FILE.
fields_are_documented() {
  python3 - "$TESTS/../docs/json.md" "$1" "$2" <<'PYTHON'
import json, re, sys
document, verb, said = open(sys.argv[1]).read(), sys.argv[2], open(sys.argv[3]).read()
[section] = [part for part in document.split("\n## ")[1:] if verb in part.splitlines()[0].split(", ")]
fields, order = re.findall(r"^\| `(\w+)` \|", section, re.M), sorted if verb == "state" else list
assert said.count("\n") == 1, said
assert order(json.loads(said)) == order(fields), f"{verb}: {list(json.loads(said))}, documented: {fields}"
PYTHON
}
