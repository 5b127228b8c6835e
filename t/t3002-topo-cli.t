#!/bin/bash
# ddp topo: a machine and where its ranks go, as text, JSON, SVG and in sentences.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
unset CUDA_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES SLURM_STEP_GPUS
machines=$top_srcdir/t/data/topology
topo() { run "$top_builddir/ddp" topo "$@"; }
recorded() { topo --xml "$machines/$1.xml" "${@:2}"; }
get() { # PYTHON-EXPRESSION over j, the JSON of the last run
    printf '%s' "$out" | python3 -c 'import json, sys; j = json.load(sys.stdin); r = j["ranks"]; print('"$1"')' \
        2>>"$tmp/get.err" || echo "no JSON ($RANDOM)"
}
is_svg() { # the last output is one SVG element without scripts and references
    printf '%s\n' "$out" | python3 -c '
import sys, xml.etree.ElementTree as tree
root = tree.fromstring(sys.stdin.buffer.read())
tags = {e.tag.split("}")[1] for e in root.iter()}
assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
assert tags <= {"svg", "g", "title", "rect", "text", "path"}, tags
assert not any("href" in a or a.startswith("on") for e in root.iter() for a in e.attrib)
'
}

# this machine, whatever it is
topo
like "this machine" "$rc $err" "^0 $"
like "its head, drawing and table" "$out" "CPUs.*package 0.*NUMA node.*cores .*rank +.*cores +CPUs"
topo --format json
is "JSON of this machine" "$rc" 0
is "the ranks may run on what this process may" "$(get 'r[0]["mask"]')" \
    "$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status)"
topo --format svg
ok "SVG of this machine" is_svg
first=$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status | sed 's/[-,].*//')
run taskset -c "$first" "$top_builddir/ddp" topo --ranks 2 --format json
is "a mask is respected" "$(get '[x["cpus"] for x in r]')" "['$first', '$first']"
# a machine with GPUs in its place
seen() { # DESC WANT VARIABLE...: the ranks' GPUs
    run env HWLOC_XMLFILE="$machines/hgx-h100.xml" "${@:3}" "$top_builddir/ddp" topo --format json
    is "$1" "$(get '[x["gpu"] for x in r]')" "$2"
}
seen "all GPUs where no variable hides any" "[0, 1, 2, 3, 4, 5, 6, 7]"
seen "visible ones in their order" "[5, 2]" CUDA_VISIBLE_DEVICES=5,2 SLURM_STEP_GPUS=1,2,5
seen "AMD's variable" "[3]" ROCR_VISIBLE_DEVICES=3
seen "a step's GPUs" "[4, 6]" SLURM_STEP_GPUS=4,6
run env HWLOC_XMLFILE="$machines/hgx-h100.xml" CUDA_VISIBLE_DEVICES= "$top_builddir/ddp" topo --format json
is "no visible GPU, none for the ranks" "$(get '{x["gpu"] for x in r}')" "{None}"
run env CUDA_VISIBLE_DEVICES=1 "$top_builddir/ddp" topo --xml "$machines/hgx-h100.xml" --format json
is "which say nothing of another machine's record" "$(get 'len(r)')" 8

# recorded ones
recorded hgx-h100
like "one rank per GPU" "$out" "8 ranks, one per GPU; CPUs 0-255 \(all that the record allows\)"
like "a NUMA node with its cores" "$out" $'NUMA node 3 [^\n]*CPUs 48-63,176-191\n *cores +3{8} 3{8}\n'
like "and its devices" "$out" $'\n +switch +\\|+ +GPU 3 [^\n]*<- rank 3\n +\\|+ +mlx5_3 [^\n]*<- rank 3\n'
like "the table" "$out" \
    $'\n   7  7 0000:e3:00.0 NVIDIA [^\n]* 16  +112-127,240-255  node 7  mlx5_7, same switch  beside its GPU$'
ok "text fits 120 columns" awk 'length($0) > 120 { exit 1 }' "$tmp/run.out"
recorded cpu-node
like "without GPUs one rank per NUMA node" "$out" "2 ranks, one per NUMA node"
recorded hgx-h100 --ranks 3
like "as many as asked" "$out" "3 ranks, as asked"
recorded hgx-h100 --gpus 5,0000:23:00.0 --format json
is "GPUs in the given order" "$(get '[(x["device"], x["gpu"]) for x in r]')" "[(0, 5), (1, 1)]"
is "and beside their cores" "$(get '[x["cpus"] for x in r]')" "['64-127,192-255', '0-63,128-191']"
recorded hgx-h100 --gpus none --format json
is "no GPUs" "$(get '(len(r), {x["gpu"] for x in r})')" "(8, {None})"
recorded hgx-h100 --cpus 0-7,16-19 --ranks 2 --format json
is "some CPUs" "$(get '[x["cpus"] for x in r]')" "['0-5', '6-7,16-19']"
is "JSON has the machine" "$(get '[len(j["machine"][k]) for k in ("numa_nodes", "cores", "gpus", "nics")]')" \
    "[8, 128, 8, 12]"
for file in "$machines"/*.xml; do
    name=$(basename "$file" .xml)
    topo --xml "$file" --format svg
    ok "$name as SVG" is_svg
    topo --xml "$file" --format json
    text=$out
    topo --xml "$file" --ranks "$(get 'len(r)')" --format json
    is "$name as JSON, twice the same ranks" "$(get 'r')" "$(out=$text get 'r')"
    topo --xml "$file" --explain 0
    like "$name explained" "$rc $out" \
        "^0 rank 0 of [0-9]+ on $name.xml: .*mask .*GPU .*cores .*memory .*NIC "
done

# why
recorded hgx-h100 --explain 3
like "beside its GPU" "${out//$'\n' / }" "GPU 3 \(0000:63:00.0, NVIDIA .*CPUs +48-63,176-191 +are beside it"
recorded dgx-2 --explain 3
like "below nested switches" "${out//[[:space:]]/ }" \
    "mlx5_1 .* It +shares +an +inner +switch +with +the +GPU; +1 +more"
recorded hgx-h100 --cpus 0-15 --explain 7
like "far from its GPU" "${out//[[:space:]]/ }" \
    "better +This step holds no core beside GPU 7 \(0000:e3:00.0,.*--exclusive"

# what names may hold
long=$(printf 'x%.0s' {1..80})
sed -e "s/Tesla V100-SXM3-32GB/\\&lt;b\\&gt;\\&quot;\\&amp;\\&#9;\\&#10;$long/" \
    -e 's/Intel(R) Xeon(R)/\&lt;script\&gt;]]\&gt;\xc3\xa9/' -e 's/"mlx5_0"/"\&amp;\&lt;\&gt;"/' \
    "$machines/dgx-2.xml" >"$tmp/<&\"evil.xml"
topo --xml "$tmp/<&\"evil.xml" --format svg
ok "hostile names in SVG" is_svg
topo --xml "$tmp/<&\"evil.xml" --format json
is "and in JSON" "$(get 'j["machine"]["origin"]')" '<&"evil.xml'
like "of processors" "$(get 'j["machine"]["cpu_model"]')" '^<script>]]>é'
is "of NICs" "$(get 'j["machine"]["nics"][0]["verbs"]')" "&<>"
like "and of GPUs" "$(get 'j["machine"]["gpus"][15]["name"]')" "^<b>\"&[?]{2}x{56}\$"
topo --xml "$tmp/<&\"evil.xml"
ok "no control character in the text" \
    sh -c '! LC_ALL=C tr -d "\n" <"$1" | LC_ALL=C grep -q "[[:cntrl:]]"' sh "$tmp/run.out"

# what is refused
refused() { # DESC RC ERE ARGUMENTS...
    topo "${@:4}"
    like "$1" "$rc $(wc -l <<<"$err") $out$err" "^$2 1 ddp topo: $3"
}
refused "a file that is not there" 1 ".*nowhere.xml" --xml "$tmp/nowhere.xml"
echo "<xml" >"$tmp/bad.xml"
refused "a file that is no topology" 1 ".*bad.xml" --xml "$tmp/bad.xml"
refused "no ranks" 2 "command line: --ranks=0 is not allowed: use --ranks=1..4096" --ranks 0
refused "a number that is none" 2 ".*--ranks=1x is not allowed: use --ranks=1..4096" --ranks 1x
refused "a value that is missing" 2 "--ranks wants a value after it: how many ranks" --ranks
refused "a file without a name" 2 ".*--xml wants a name after it: a machine recorded" --xml=
refused "a list that is none" 2 "--cpus: .*3-" --cpus 3-
refused "CPUs that are not there" 2 "--cpus: .* has no CPU 8000-8001: its CPUs are 0" --cpus 8000-8001
refused "a GPU that is not there" 2 '--gpus: "12" is none of the 8 GPUs of hgx-h100.xml: name them' \
    --xml "$machines/hgx-h100.xml" --gpus 0,12
refused "a GPU twice" 2 '--gpus: "0000:03:00.0" is a GPU that was named before' --xml "$machines/hgx-h100.xml" \
    --gpus 0,0000:03:00.0
refused "GPUs of a machine without" 2 '--gpus: "0": no GPU is known of cpu-node.xml' \
    --xml "$machines/cpu-node.xml" --gpus 0
run env CUDA_VISIBLE_DEVICES=0,,1 "$top_builddir/ddp" topo
like "a variable that is no list" "$rc $err" "^1 ddp topo: CUDA_VISIBLE_DEVICES, which --gpus would replace: .*0,,1"
run env HWLOC_XMLFILE=/nonexistent "$top_builddir/ddp" topo
is "a variable that names no file" "$rc $err" "1 ddp topo: HWLOC_XMLFILE: /nonexistent: No such file or directory"
refused "a format that is none" 2 ".*--format=png is not allowed: use --format=text\|json\|svg" --format png
refused "a rank that is not there" 2 "--explain 8: there are fewer ranks, 0 to 7" --xml "$machines/hgx-h100.xml" \
    --explain 8
refused "an explanation as a picture" 2 "--explain writes text" --explain 0 --format svg
refused "an unknown option" 2 'there is no option --rank, did you mean --ranks\? "ddp topo --help" lists them' --rank 3
refused "a word too many" 2 'there is no option 3: "ddp topo --help" lists them' 3
topo --help
like "help" "$rc $out" "^0 usage: ddp topo .*--explain RANK"
run sh -c '"$1" topo >/dev/full' sh "$top_builddir/ddp"
like "an output that cannot be written" "$rc $err" "^1 ddp topo: the output cannot be written"
done_testing
