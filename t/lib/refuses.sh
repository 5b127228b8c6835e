# shellcheck shell=bash disable=SC2154
# refuses.sh - for shell tests of what train says no to: source it after tap.sh.

# refuses DESC CODE ERE COMMAND...: it ends with that exit code and one line that matches.
refuses() {
    local desc=$1 code=$2 why=$3
    shift 3
    run "$@"
    is "$desc: exit code" "$rc" "$code"
    is "$desc: one line" "$(grep -vc '^ddp run: ' <<<"$err")" 1
    like "$desc: says it" "$err" "$why"
    unlike "$desc: no step was made" "$out" 'step 1/1'
}
