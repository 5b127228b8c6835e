#!/bin/bash
# bash's completion: each verb and option that help and the settings know is offered, nothing else, and no program is
# started for it.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/contrib/completion/ddp"

sorted() { tr ' ' '\n' | grep . | sort | paste -sd' '; }
# What a TAB at the end of these words offers.
tab() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _ddp 2>/dev/null # compopt, of which there is none here
    sorted <<<"${COMPREPLY[*]}"
}
# What COMMAND --help lists, and WORDS.
options() {
    {
        "$top_builddir/$1" "${@:2}" --help | sed -nE 's/^  (--?[a-z0-9-]+) .*/\1/p'
        echo --help
    } | sorted
}
verbs() { "$top_builddir/ddp" "$@" | sed -nE 's/^  ([a-z]+)  .*/\1/p' | sorted; }
settings=$("$top_builddir/t/lib/settings" | sed -nE 's/^libddp\.7\t.*, (--ddp-[a-z-]+=).*/\1/p')

is "verbs" "$(tab ddp '')" "$(verbs help)"
is "... beginning with r" "$(tab ddp r)" "report requeue run"
is "the command's options" "$(tab ddp -)" "--help --version"
is "verbs that have help" "$(tab ddp help '')" "$(verbs help | sed 's/ \?help//')"
is "bench's verbs" "$(tab ddp bench '')" "$(verbs bench --help)"
is "ckpt's verbs" "$(tab ddp ckpt '')" "$("$top_builddir/ddp" ckpt --help |
    sed -nE 's/.*ddp ckpt ([a-z]+) .*/\1/p' | sorted)"
for verb in check doctor report requeue run topo; do
    is "options of $verb" "$(tab ddp $verb -)" "$(options ddp $verb)"
done
for verb in $(verbs bench --help); do
    is "options of bench $verb" "$(tab ddp bench "$verb" -)" "$(sorted <<<"$(options ddp bench "$verb") $settings")"
done
is "options of train" "$(tab ./train -)" "$(sorted <<<"$(options train) $settings --version")"
is "... beginning with --ckpt" "$(tab /usr/libexec/slurm-ddp/train --data x --ckpt)" "--ckpt --ckpt-every"
is "a program in ddp run" "$(tab ddp run -n 2 --timeout = 9 -- ./train --ke)" --keep
is "... the command itself" "$(tab ddp run -n 2 ddp bench st)" step
is "... another" "$(tab ddp run -n 2 python -)" ""
is "a folder is no verb's" "$(tab ddp ckpt ls '')$(tab ./train --data '')" ""
done_testing
