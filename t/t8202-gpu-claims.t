#!/bin/bash
# What doc/gpu.md says of GPUs is what was seen: it names the state of the sources that a record of contrib/gpu-check
# in doc/gpu is of, in which no test failed; and says so where they have changed since.
. "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
. "$top_srcdir/contrib/lib/gpu-state.sh"
state=$(gpu_state "$top_srcdir")
like "the sources have a state" "$state" '^[0-9a-f]{16}$'
told=$(sed -n 's/.*the sources of state `\([0-9a-f]*\)`.*/\1/p' "$top_srcdir/doc/gpu.md")
record=$(grep -lsF "\"state\": \"$told\"" "$top_srcdir"/doc/gpu/*.json)
ok "doc/gpu.md names a state that has a record" test -n "$record"
like "of a GPU, in full, without failures" "$(head -n 8 "$record" | tr '\n' ' ')" \
    '"emulated": false, "ended": "in full".* "failed": 0, "skipped"'
changed=1
[ "$state" != "$told" ] || changed=0
is "and says so if the sources have changed since" \
    "$(grep -c 'The sources have changed since' "$top_srcdir/doc/gpu.md")" $changed
done_testing
