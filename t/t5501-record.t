#!/bin/bash
# The record of a run: what doc/record.schema.json says of a line, ddp-record(5) says too, and recorded runs keep to it.
source "$(dirname "$0")/lib/tap.sh"
schema=$top_srcdir/doc/record.schema.json

cat >"$tmp/names" <<'EOF2'
import json, sys
for event, what in json.load(open(sys.argv[1]))["$defs"].items():
    for name in what.get("properties", ()):
        print(event, name)
        for part in what["properties"][name].get("properties", ()):
            print(event, part)
EOF2
names=$(python3 "$tmp/names" "$schema")
is "every event is in the schema" "$(cut -d' ' -f1 <<<"$names" | uniq | paste -sd' ')" \
    "start train resume interval validation checkpoint slow stop requeue failure end"
# unsaid PAGE: names that neither the page's item of an event nor its words on guards have; event and t stand at its
# beginning
unsaid() {
    grep -v ' event$\| t$' <<<"$names" | while read -r event name; do
        sed -n "/^\.Ss Lines of a guard/,/^\.Sh/p; /^\.It Cm $event\$/,/^\.It Cm/p" "$1" |
            grep -qE "Va $name( |\$)" || echo "$event $name"
    done
}
page=$top_srcdir/doc/man/ddp-record.5
is "the manual page names all of its members" "$(unsaid "$page")" ""
sed '/^\.It Va grad_norm/d' "$page" >"$tmp/page"
is "caught: one that it does not" "$(unsaid "$tmp/page")" "interval grad_norm"

for python in python3 /usr/bin/python3; do $python -c 'import jsonschema' 2>/dev/null && break; done
cat >"$tmp/valid" <<'EOF2'
import json, sys, jsonschema
valid = jsonschema.Draft202012Validator(json.load(open(sys.argv[1])))
valid.check_schema(valid.schema)
for number, line in enumerate(sys.stdin, 1):
    if line.endswith("\n") and not valid.is_valid(json.loads(line)):
        print("line", number)
EOF2
valid() { run bash -c '"$@" <&3' - $python "$tmp/valid" "$schema" 3<"$1"; }
if ! $python -c 'import jsonschema' 2>/dev/null; then
    ok "# SKIP no jsonschema: contrib/deps installs it" true
    done_testing
fi
for file in "$top_srcdir"/t/data/record/*; do
    valid "$file"
    is "${file##*/} keeps the schema" "$rc:$out$err" "0:"
done
i='"event":"interval","t":1,"step":1,"steps":1'
printf '%s\n' '{"event":"epoch","t":1,"number":3}' '{"event":"train","t":1,"step":0}' >"$tmp/lines"
valid "$tmp/lines"
is "an event of the program's own keeps the schema; so does another framework's beginning" "$rc:$out$err" "0:"
printf '%s\n' '{"event":"stop","t":1,"step":5,"signal":null,"new":1}' '{"event":"stop","t":1,"step":5}' \
    '{"event":"New","t":1}' '{"event":"end","t":1,"step":5,"how":"well"}' \
    '{"event":"stop","t":-1,"step":5,"signal":null}' "{$i}" >"$tmp/lines"
valid "$tmp/lines"
is "caught: lines without a member, of no event, with a wrong value" "$rc:$out" "0:line 2"$'\n'"line 3"$'\n'"line 4
line 5"$'\n'"line 6"
done_testing
