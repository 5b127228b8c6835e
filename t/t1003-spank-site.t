#!/bin/bash
# The site file: its say, its errors, and that none of them harms a node.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
site=$tmp/site.json
echo '{}' >"$site"
chmod 644 "$site"
cluster_up 2 --cpus 4 --gpus 2 --site "$site"
alive="$(cluster_pid n1) $(cluster_pid n2)"

write_site() { # TEXT
    printf '%b' "$1" >"$site"
    chmod 644 "$site"
}
healthy() { # DESC
    cluster_run sinfo -h -N -t drain,down,fail -o "%N %T"
    is "$1: nodes stay" "$out" ""
}
bad_site() { # DESC TEXT WHAT
    write_site "$2"
    cluster_run srun --ddp=on -N2 -n4 true
    ok "$1: fails" test "$rc" -ne 0 -a "$rc" -ne 124
    like "$1: names file, line and key" "$err" "$3"
    is "$1: in one line" "$(grep -c 'ddp: ' <<<"$err")" 1
    cluster_run srun -n2 true
    is "$1: steps without --ddp go on" "$rc$err" 0
    healthy "$1"
}

write_site '{ "port_min": 21500, "port_max": 21500, "omp": 3, "verbose": true }\n'
cluster_run srun --ddp=on -n1 /bin/sh -c 'echo $MASTER_PORT $OMP_NUM_THREADS'
is "its values hold" "$out" "21500 3"
like "... verbose too" "$err" "ddp: n1:"
DDP_OMP=2 cluster_run srun --ddp=verbose=off -n1 /bin/sh -c 'echo $MASTER_PORT $OMP_NUM_THREADS'
is "environment and command line come first" "$out$err" "21500 2"
write_site '{ "ckpt_private": true }'
cluster_run srun -N1 --ddp=on sh -c 'echo $DDP_CKPT_PRIVATE'
is "the site wants checkpoints in private folders: the program is told" "$rc $out" "0 on" || diag "$err"
# shellcheck disable=SC2016
place='[ "$PPID" = "$SLURM_TASK_PID" ] && echo guarded || echo "not guarded"'
write_site '{ "guard": true }'
cluster_run srun -N1 --ddp=on bash -c "$place"
is "the site wants guards" "$rc $out$err" "0 guarded"
cluster_run srun -N1 --ddp=guard=off bash -c "$place"
is "... and a user none" "$rc $out$err" "0 not guarded"
write_site '{ "guard": true, "stop": "USR1@60" }'
cluster_run env SHELL=/bin/sh script -qec "srun --pty --ddp=on -N1 -n1 true" /dev/null
is "... of which nobody hears who has a terminal, and asked for none" "$rc $(grep -c 'ddp: ' <<<"$out")" "0 0" ||
    diag "$out"
write_site '{ "restarts": 1, "guard_silent": 9 }'
# shellcheck disable=SC2016
cluster_run srun -N2 -n2 --ddp=on bash -c 'echo "generation $DDP_RESTART"; [ "$DDP_RESTART" = 1 ] || exit 3'
like "the site has programs started again" "$rc $(sort <<<"$out" | uniq | xargs)" "^0 generation 0 generation 1$"
write_site '{ "mpi": "none" }'
cluster_run srun --ddp=on -n1 /bin/sh -c 'echo ${PMIX_RANK-none}'
is "mpi: none" "$out" none
read -r mpi rank < <(cluster_mpi)
cluster_run srun --ddp=mpi=$mpi -n1 printenv "$rank"
is "... unless the user says otherwise" "$out" 0

bad_site "bad JSON" '{\n "bind": "none",\n}\n' "$site:3: not JSON"
bad_site "unknown key" '{\n\n "bnd": "none" }' "$site:3: unknown key \"bnd\", did you mean bind\?"
bad_site "wrong type" '{ "verbose": "yes" }' "$site:1: verbose: must be true or false"
bad_site "out of range" '{\n "port_min": 80 }' "$site:2: port_min: 80 is not allowed"
bad_site "trailing garbage" '{}\n}' "$site:2: not JSON"
bad_site "disabled" '{ "enabled": false }' "$site has \"enabled\": false: say --ddp=off"

# A job that was given --ddp=on before that still runs steps without it.
mkdir -m 777 "$tmp/job.d"
write_site '{}'
# shellcheck disable=SC2016
cluster_run salloc -N1 -n1 --ddp=on sh -c 'touch "$0/begun"; until [ -e "$0/go" ]; do sleep 0.05; done
    DDP_OMP=-3 srun --ddp=off sh -c "echo ran \${RANK-none}"; srun --ddp=on true' "$tmp/job.d" &
job=$!
until_true 60 test -e "$tmp/job.d/begun"
write_site '{ "enabled": false }'
touch "$tmp/job.d/go"
wait "$job"
out=$(<"$tmp/run.out") err=$(<"$tmp/run.err")
is "disabled: a step with --ddp=off of a job with --ddp=on runs" "$out" "ran none" || diag "$err"
like "... one with --ddp=on does not" "$err" "$site has \"enabled\": false: say --ddp=off"

write_site '{ "port_min": 21000, "port_max": 21020 }'
for option in restarts=1\ -N1 guard=on\ -N2; do
    # shellcheck disable=SC2086
    cluster_run srun --ddp=on,$option -n2 true
    is "guards in a range that has no room for them, $option: start" "$rc" 0 || diag "$err"
done
cluster_run srun --ddp=on,restarts=1 -N2 -n2 true
ok "... of several nodes, with restarts: fails" test "$rc" -ne 0 -a "$rc" -ne 124
like "... and says so" "$err" 'stop and restarts need 32 ports between nodes, .* has 21: leave them out'
cluster_run srun --ddp=on -n1 printenv MASTER_PORT
like "... a step without them starts" "$out" '^210[0-2][0-9]$'

# A file that somebody else could have written is not the site's.
write_site '{}'
chmod 666 "$site"
cluster_run srun --ddp=on -n1 true
ok "writable by all: fails" test "$rc" -ne 0 -a "$rc" -ne 124
like "... and says so" "$err" "$site must belong to root"
chmod 644 "$site"

# Seen by the nodes alone: the step fails, node by node in one line, and that is all. plugstack.conf is read anew by
# each srun and slurmstepd; a view of its own gives srun a sound file.
cat >"$tmp/submit" <<SUBMIT
mount --bind "$tmp/good.json" "$site"
exec "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" "\$@"
SUBMIT
echo '{}' >"$tmp/good.json"
chmod 644 "$tmp/good.json"
for word in required optional; do
    sed -i "s/^[a-z]*/$word/" "$cluster_dir/conf/plugstack.conf"
    write_site '{ "bnd": 1 }'
    run_steady unshare -m bash "$tmp/submit" srun --ddp=on -N2 -n4 /bin/sh -c 'echo ran'
    ok "bad on the nodes, $word: fails" test "$rc" -ne 0 -a "$rc" -ne 124
    is "... nothing ran" "$out" ""
    like "... names node, file and key" "$err" "ddp: n1: $site:1: unknown key \"bnd\""
    is "... in a line per node" "$(grep -c 'ddp: ' <<<"$err")" 2
    unlike "... and none of Slurm's about plugins" "$err" "plugin stack"
    healthy "bad on the nodes, $word"
    cat >"$tmp/job" <<'JOB'
#!/bin/sh
#SBATCH -N2 -n2 --ddp=on
srun true
JOB
    run_steady unshare -m bash "$tmp/submit" sbatch --wait -o "$cluster_dir/home/job.out" "$tmp/job"
    ok "... a batch job's step fails too" test "$rc" -ne 0 -a "$rc" -ne 124
    healthy "... a batch job's step, $word"
done

# Sites push their file to one node after the other. Whether there are guards is for srun's host to say, or those that
# have some would wait for those that have none.
both() { # DESC SRUN'S NODES' WANT [OPTION...]: of srun
    write_site "$3"
    printf '%s' "$2" >"$tmp/good.json"
    run_steady unshare -m bash "$tmp/submit" srun -N2 -n4 "${@:5}" --ddp=on /bin/bash -c "$place"
    is "$1" "$rc $(sort <<<"$out" | uniq -c | xargs)$err" "$4"
}
both "guards on srun's host alone" '{ "guard": true }' '{}' "0 4 guarded"
both "... and tasks without srun's environment" '{ "guard": true }' '{}' "0 4 guarded" --export=NONE
DDP_GUARD=on both "... which says so itself" '{}' '{}' "0 4 guarded" --export=NONE
# shellcheck disable=SC2016
where() { # SRUN'S NODES': sets $out to the ports of two nodes' tasks
    write_site "$2"
    printf '%s' "$1" >"$tmp/good.json"
    run_steady unshare -m bash "$tmp/submit" srun -N2 -n2 --ddp=on sh -c 'echo $MASTER_PORT'
    out="$(sort -u <<<"$out" | xargs)"
}
where '{ "port_min": 21000, "port_max": 21099 }' '{ "port_min": 25000, "port_max": 25999 }'
like "ports: as srun's host says, on all nodes alike" "$rc $out$err" '^0 210[0-9][0-9]$'
where '{}' '{ "port": 19999 }'
like "... its defaults, too" "$rc $out$err" '^0 2[0-9]{4}$'
where '{ "port": 31777 }' '{}'
is "... one port" "$rc $out$err" "0 31777"
sed "s,site=[^ ]*,site=$tmp/none.json," "$cluster_dir/conf/plugstack.conf" >"$tmp/plugstack.conf"
sed "1i mount --bind $tmp/plugstack.conf $cluster_dir/conf/plugstack.conf" -i "$tmp/submit"
where '{}' '{ "port_min": 25000, "port_max": 25099 }'
like "... as the nodes say, where that host has no file" "$rc $out$err" '^0 250[0-9][0-9]$'
sed -i 1d "$tmp/submit"
both "guards on the nodes alone" '{}' '{ "restarts": 1, "stop": "USR1@5" }' "0 4 not guarded"
# shellcheck disable=SC2016
run_steady unshare -m bash "$tmp/submit" srun -N2 -n2 --ddp=restarts=1 \
    sh -c '[ "$DDP_RESTART" = 1 ] && echo again || exit 3'
like "a user has them anyhow" "$rc $(uniq <<<"$out")" "^0 again$"
write_site '{ "restarts": 1 }'
cluster_run srun -n1 --ddp=min_nodes=1 true
is "... and adds to what the site says" "$rc$err" 0
write_site '{}'
echo '{ "guard": true }' >"$tmp/good.json"
run_steady unshare -m bash "$tmp/submit" \
    srun -n1 --ddp=on srun -n1 --overlap --ddp=on bash -c "$place"
is "a step within a step asks anew" "$rc $(xargs <<<"$out")" "0 not guarded"

# No file at all.
rm "$site"
cluster_run srun --ddp=on -n1 /bin/sh -c 'echo $RANK'
is "no site file: the defaults hold" "$out$err" 0
ok "... and the node's log says so" grep -rq "no site file $site" "$cluster_dir/log"

# The plugin's line in plugstack.conf.
sed -i 's/$/ sight=x/' "$cluster_dir/conf/plugstack.conf"
cluster_run srun --ddp=on -n1 true
ok "an unknown argument in plugstack.conf: fails" test "$rc" -ne 0 -a "$rc" -ne 124
like "... and is named" "$err" 'ddp.so takes site=/PATH only, not "sight=x"'
cluster_run srun -n1 true
is "... steps without --ddp go on" "$rc$err" 0
sed -i 's/ sight=x//' "$cluster_dir/conf/plugstack.conf"

cluster_run srun --ddp=on -n1 --gpus-per-node=2 true
is "one task, two GPUs: the line to type" "$err" \
    "ddp: warning: one task on n1 with 2 GPUs: data-parallel training wants one per GPU: \
srun --ntasks-per-node=2, or torchrun in the task"
cluster_run srun --ddp=on -n2 --ntasks-per-node=2 --gpus-per-node=2 true
is "two tasks, two GPUs: no word" "$err" ""
healthy "at the end"
is "no slurmd has ended" "$(cluster_pid n1) $(cluster_pid n2)" "$alive"
ok "... and both live" kill -0 $alive
done_testing
