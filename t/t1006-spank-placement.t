#!/bin/bash
# Placement on a real Slurm: what verbose prints is what each task gets, in every kind of step; wide machines from
# records. Two CPUs are real, GPUs are device files.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
[ "$(nproc)" -ge 2 ] && grep -Eq '^Cpus_allowed_list:.0[-,]1' /proc/self/status || skip_all "needs CPUs 0 and 1"
# Without autobinding, which differs between versions, Slurm binds to sockets: two tasks share what the step has. The
# node says that it has more CPUs than a step takes.
cluster_up 2 --netns --cpus "$((2 * $(nproc)))" --gpus 4 --conf SchedulerParameters=bf_interval=1 \
    --conf TaskPluginParam=Sockets
unset SLURM_CPU_BIND
machines=$top_srcdir/t/data/topology
export SLURM_CONF=$cluster_dir/conf/slurm.conf

# What slurmd wrote when it started (topology/cache.h): at its end the memory nodes, 16 bytes each, first their numbers.
cores=/run/slurm-ddp/cores
is "slurmd writes down its node's cores" "$(cluster_exec n1 stat -c '%U %a' $cores)" "root 644"
cluster_exec n1 bash -c 'nodes=(/sys/devices/system/node/node[0-9]*) && size=$(stat -c %s $0) && printf "\57\0" |
    dd of=$0 conv=notrunc status=none oflag=seek_bytes seek=$((size - 16 * ${#nodes[@]}))' $cores
cluster_run srun -N1 -n2 -w n1 --ddp=verbose,bind=print true
like "... and steps take them from there" "$err" 'node 47 '
cluster_run srun -N1 -n2 -w n2 --ddp=verbose,bind=print true
unlike "... each from its node's" "$err" 'node 47 '
cluster_exec n1 chown nobody $cores
cluster_run srun -N1 -n2 -w n1 --ddp=verbose,bind=print true
unlike "... but from nobody's but root's" "$rc $err" '^[^0]|node 47 '
cluster_exec n1 rm $cores

# One line per task: its node and local rank, its CPUs.
cat >"$tmp/mask" <<'SHOW'
#!/bin/sh
cpus=$(taskset -cp $$)
echo "$SLURMD_NODENAME $SLURM_LOCALID ${cpus##* }"
SHOW
cat >"$tmp/gpu" <<'SHOW'
#!/bin/sh
echo "$SLURMD_NODENAME $SLURM_LOCALID ${DDP_DEVICE-none} of ${CUDA_VISIBLE_DEVICES-none}" \
    "${CUDA_DEVICE_ORDER-none} ${NCCL_SOCKET_IFNAME-none} ${NCCL_IB_HCA-none}"
SHOW
chmod 755 "$tmp/mask" "$tmp/gpu"

# The tables of $1 (ranks in order under a line of headings, nodes that are alike together) as lines "NODE RANK CPUS".
tables() {
    local line nodes='' node cells head i first last
    while IFS= read -r line; do
        if [[ $line =~ ^ddp:\ (.*):$ ]]; then
            nodes=$(scontrol show hostnames "${BASH_REMATCH[1]}")
            continue
        fi
        mapfile -t cells < <(sed 's/^ *//; s/   */\n/g' <<<"$line")
        if [ "${cells[0]}" = rank ]; then
            for ((i = 0; i < ${#cells[@]}; i++)); do [ "${cells[i]}" != CPUs ] || head=$i; done
        elif [[ ${cells[0]} =~ ^[0-9]+(-[0-9]+)?$ ]]; then
            IFS=- read -r first last <<<"${cells[0]}"
            for node in $nodes; do
                for ((i = first; i <= ${last:-first}; i++)); do echo "$node $i ${cells[head]}"; done
            done
        fi
    done <<<"$1" | sort
}
both() { sed 's/ 0,1$/ 0-1/' | sort; } # taskset writes it so
masks() { tables "$err" | both; }
got() { both <<<"$out"; }
srun() { cluster_run env -u SLURM_CPU_BIND srun "$@"; }
agree() { # DESC WANT... : the tasks' masks are WANT, and the table says so
    local desc=$1
    shift
    is "$desc" "$(got)" "$(printf '%s\n' "$@")"
    is "... as the table says" "$(masks)" "$(got)"
}
one=0 two=1
if grep -Eq '^0[-,]1$' /sys/devices/system/cpu/cpu0/topology/thread_siblings_list; then one=0-1 two=0-1; fi

srun -N1 -n2 --ddp=on,verbose "$tmp/mask"
agree "two tasks" "n1 0 $one" "n1 1 $two"
srun -N2 --ntasks-per-node=2 --ddp=on,verbose "$tmp/mask"
agree "--ntasks-per-node" "n1 0 $one" "n1 1 $two" "n2 0 $one" "n2 1 $two"
like "... nodes that are alike in one table" "$err" 'ddp: n\[1-2\]:'
srun -N2 -n3 -m block --ddp=on,verbose "$tmp/mask"
agree "uneven" "n1 0 $one" "n1 1 $two" "n2 0 $one"
srun -N1 -n1 --cpus-per-task=2 --ddp=on,verbose "$tmp/mask"
agree "--cpus-per-task" "n1 0 0-1"
srun -N1 -n2 --gpus-per-node=2 --ddp=on,verbose "$tmp/mask"
agree "--gpus-per-node" "n1 0 $one" "n1 1 $two"
srun -N1 -n4 -O --ddp=on,verbose "$tmp/mask"
is "overcommit: as the table says" "$(got)" "$(masks)"
is "... one core each" "$(cut -d' ' -f3 <<<"$(got)" | sort -u)" 0
srun -N1 -n2 --cpu-bind=none --ddp=on,verbose "$tmp/mask"
agree "--cpu-bind=none" "n1 0 0-1" "n1 1 0-1"
srun -N1 -n2 --cpu-bind=map_cpu:1,0 --ddp=on,verbose "$tmp/mask"
agree "--cpu-bind=map_cpu" "n1 0 1" "n1 1 0"
like "... and why" "$err" "--cpu-bind was given"
SLURM_CPU_BIND=map_cpu:1,0 cluster_run srun -N1 -n2 --ddp=on,verbose "$tmp/mask"
agree "SLURM_CPU_BIND" "n1 0 1" "n1 1 0"
# srun itself binds to sockets then; the user did not.
srun -N1 -n2 --ntasks-per-socket=2 --ddp=on,verbose "$tmp/mask"
agree "--ntasks-per-socket is no --cpu-bind" "n1 0 $one" "n1 1 $two"
srun -N1 -n2 --hint=nomultithread --ddp=on,verbose "$tmp/mask"
is "... nor is --hint" "$rc $(masks | wc -l) $(grep -c "cpu-bind was given" <<<"$err")" "0 2 0"
srun -N1 -n1 --hint=nomultithread --ddp=on /bin/sh -c \
    "srun --overlap -n1 --cpu-bind=none --ddp=on /bin/sh -c 'echo \${SLURM_DDP_UNBOUND-none}'"
is "... which an inner srun knows for itself" "$out" none
srun -N1 -n2 --ddp=on,bind=none,verbose "$tmp/mask"
agree "bind=none" "n1 0 0-1" "n1 1 0-1"
srun -N1 -n2 --ddp=on,bind=print "$tmp/mask"
is "bind=print leaves the masks" "$(got)" $'n1 0 0-1\nn1 1 0-1'
like "... and says so" "$err" $'\n  note: bind=print: nothing is bound'
is "... and prints what would be" "$(masks)" $'n1 0 '"$one"$'\nn1 1 '"$two"
: >"$tmp/conf" && printf '0 %s\n1 %s\n' "$tmp/mask" "$tmp/mask" >"$tmp/conf" && chmod 644 "$tmp/conf"
srun -N1 -n2 --ddp=on,verbose --multi-prog "$tmp/conf"
agree "--multi-prog" "n1 0 $one" "n1 1 $two"
printf '#!/bin/sh\necho print prolog $SLURM_LOCALID\n' >"$tmp/prolog" && chmod 755 "$tmp/prolog"
srun -N1 -n2 --ddp=on,verbose --task-prolog="$tmp/prolog" "$tmp/mask"
out=$(grep -v prolog <<<"$out")
agree "--task-prolog" "n1 0 $one" "n1 1 $two"
# Without PMIx: one in forty such steps of Slurm 22.05 does not end with it, with and without the plugin.
srun -w n2 -n1 --ddp=on,verbose,mpi=none "$tmp/mask" : -w n1 -n2 --ddp=on,verbose,mpi=none "$tmp/mask"
agree "heterogeneous" "n1 0 $one" "n1 1 $two" "n2 0 0"
cat >"$tmp/job" <<JOB
#!/bin/sh
#SBATCH -N1 -n2 --ddp=on,verbose
srun $tmp/mask
JOB
cluster_run env -u SLURM_CPU_BIND sbatch --wait -o "$cluster_dir/home/job.out" -e "$cluster_dir/home/job.err" "$tmp/job"
out=$(steady "$cluster_dir/home/job.out") err=$(steady "$cluster_dir/home/job.err")
agree "sbatch" "n1 0 $one" "n1 1 $two"

# Many tasks on few CPUs all meet.
srun -N1 -n24 -O --ddp=on true
is "24 tasks on two CPUs meet" "$rc$err" 0
srun -N1 -n2 --ddp=on /bin/sh -c 'ls -l /proc/$$/fd; cat /proc/$$/maps'
like "a program sees its descriptors and its memory" "$rc $out" '^0 .* -> .* r-xp '
unlike "... in which nothing of the plugin is left" "$out" 'ddp|zero \(deleted\)'

# How often a node is read. hwloc opens this file once; a mount in the node's own view counts for this node alone.
file=/sys/devices/system/node/online
cp "$file" "$tmp/online" && chmod 644 "$tmp/online"
cluster_exec n1 mount --bind "$tmp/online" "$file"
mpi=$(cluster_mpi | cut -d' ' -f1)
loads() { # TASKS SRUN'S OPTIONS...: how often, beyond what Slurm and its MPI do themselves
    local with without
    with=$(cluster_opens -n "$@") && without=$(cluster_opens -n "$1" --mpi=$mpi) &&
        echo $((with - without)) || echo "a step fails"
}
cluster_opens() {
    "$top_builddir/t/lib/opens" "$tmp/online" "$top_srcdir/contrib/cluster" run --dir "$cluster_dir" \
        env -u SLURM_CPU_BIND srun -w n1 -O "$@" true 2>/dev/null
}
is "8 tasks: the node is read once" "$(loads 8 --ddp=on)" 1
is "... with GPUs and the table too" "$(loads 8 --ddp=on,verbose --gpus-per-node=4)" 1
is "... with nothing to decide not at all" "$(loads 8 --ddp=on,bind=none)" 0
is "... nor by a task alone" "$(loads 1 --ddp=on)" 0
cluster_exec n1 umount "$file"

# Another machine's record.
srun -N2 -n16 -O --ddp=on,topo="$machines/hgx-h100.xml" "$tmp/mask"
is "topo: 8 ranks on an HGX H100" "$(masks | grep n1)" "n1 0 0-15,128-143
n1 1 16-31,144-159
n1 2 32-47,160-175
n1 3 48-63,176-191
n1 4 64-79,192-207
n1 5 80-95,208-223
n1 6 96-111,224-239
n1 7 112-127,240-255"
like "... on both nodes in one table" "$err" 'ddp: n\[1-2\]:'
is "... nothing is bound" "$(cut -d' ' -f3 <<<"$(got)" | sort -u | tr '\n' ' ')" \
    "$(srun -N2 -n16 -O "$tmp/mask" && cut -d' ' -f3 <<<"$(got)" | sort -u | tr '\n' ' ')"
DDP_TOPO=$machines/mi250x.xml srun -N1 -n4 -O --gpus-per-node=4 --ddp=on "$tmp/gpu"
is "DDP_TOPO, as many GPUs as Slurm gave" "$(tables "$err" | wc -l) $(grep -c 'MI250X' <<<"$err")" "4 4"
# newer Slurm makes three tasks and one of -n4, and cannot bind three to two CPUs
srun -N2 --ntasks-per-node=2 --ddp=on,topo=/nonexistent.xml true
ok "no such record: fails" test "$rc" -ne 0 -a "$rc" -ne 124
is "... in a line per node" "$(grep nonexistent <<<"$err" | sort)" "$(printf \
    'ddp: n%d: topo (--ddp): /nonexistent.xml: No such file or directory\n' 1 2)"

# GPUs.
srun -N2 --ntasks-per-node=2 --gpus-per-node=2 --ddp=on "$tmp/gpu"
is "DDP_DEVICE, and what NCCL is told" "$(sort <<<"$out")" "n1 0 0 of 0,1 PCI_BUS_ID =eth0 none
n1 1 1 of 0,1 PCI_BUS_ID =eth0 none
n2 0 0 of 0,1 PCI_BUS_ID =eth0 none
n2 1 1 of 0,1 PCI_BUS_ID =eth0 none"
is "... without a word" "$err" ""
srun -N1 -n4 -O --gpus-per-node=2 --ddp=on "$tmp/gpu"
is "more ranks than GPUs, one node" "$(sort <<<"$out" | cut -d' ' -f2,3,7)" "0 0 none
1 1 none
2 0 none
3 1 none"
srun -N2 -n2 --ddp=on "$tmp/gpu"
is "no GPUs: none of it" "$(sort <<<"$out" | sed 's/of .*none N/N/')" "n1 0 none of none none none none
n2 0 none of none none none none"
NCCL_SOCKET_IFNAME=x CUDA_DEVICE_ORDER=y srun -N2 -n2 --gpus-per-node=1 --ddp=on "$tmp/gpu"
is "the user's own stay" "$(sort <<<"$out")" "n1 0 0 of 0 y x none
n2 0 0 of 0 y x none"
echo NCCL_SOCKET_IFNAME=z >"$cluster_dir/home/.nccl.conf" && chmod 644 "$cluster_dir/home/.nccl.conf"
srun -N2 -n2 --gpus-per-node=1 --ddp=on "$tmp/gpu"
is "~/.nccl.conf is not overruled" "$(cut -d' ' -f7 <<<"$out" | sort -u)" none
NCCL_CONF_FILE=/nonexistent srun -N2 -n2 --gpus-per-node=1 --ddp=on "$tmp/gpu"
is "... unless NCCL does not read it" "$(cut -d' ' -f7 <<<"$out" | sort -u)" =eth0
rm "$cluster_dir/home/.nccl.conf"
echo '{ "nccl_socket_ifname": "=ib0,ib1", "nccl_ib_hca": "mlx5_0,mlx5_1" }' >"$tmp/site.json" &&
    chmod 644 "$tmp/site.json"
sed -i "s|\$| site=$tmp/site.json|" "$cluster_dir/conf/plugstack.conf"
srun -N2 -n2 --gpus-per-node=1 --ddp=on "$tmp/gpu"
is "the site's word" "$(sort <<<"$out")" "n1 0 0 of 0 PCI_BUS_ID =ib0,ib1 mlx5_0,mlx5_1
n2 0 0 of 0 PCI_BUS_ID =ib0,ib1 mlx5_0,mlx5_1"
# gloo and TensorPipe, with GPUs and without.
cat >"$tmp/gloo" <<'SHOW'
#!/bin/sh
echo "$SLURMD_NODENAME ${GLOO_SOCKET_IFNAME-none} ${TP_SOCKET_IFNAME-none}"
SHOW
chmod 755 "$tmp/gloo"
srun -N2 -n2 --ddp=on "$tmp/gloo"
is "gloo hears of the route, whatever list the site has for NCCL" "$(sort <<<"$out")" $'n1 eth0 eth0\nn2 eth0 eth0'
echo '{ "nccl_socket_ifname": "=ib0" }' >"$tmp/site.json"
srun -N2 -n2 --gpus-per-node=1 --ddp=on "$tmp/gloo"
is "... and of the one that it names" "$(sort <<<"$out")" $'n1 ib0 ib0\nn2 ib0 ib0'
GLOO_SOCKET_IFNAME=x srun -N2 -n2 --ddp=on "$tmp/gloo"
is "... and never over the user's" "$(sort <<<"$out")" $'n1 x ib0\nn2 x ib0'
srun -w n1 -n1 --gpus-per-node=1 --ddp=on /bin/sh -c "srun --overlap --gpus=0 -w n1 -n1 --ddp=off $tmp/gpu"
like "... is forgotten by an inner srun" "$out" "n1 0 none of .* none none none"
sed -i 's| site=.*||' "$cluster_dir/conf/plugstack.conf"
srun -N1 -n2 --ddp=on "$tmp/gloo"
is "one node: gloo needs no word" "$(sort -u <<<"$out")" "n1 none none"
sed -E 's/^.*[[:space:]]n1$/127.0.1.1 n1/' "$cluster_dir"/hosts.* >"$tmp/hosts"
cluster_exec n1 mount --bind "$tmp/hosts" /etc/hosts
srun -N2 -n2 --gpus-per-node=1 --ddp=on "$tmp/gpu"
is "a node that is 127.0.1.1 to itself: the way to the other one" "$(cut -d' ' -f7 <<<"$out" | xargs)" "=eth0 =eth0"
srun -N2 -n2 --ddp=on "$tmp/gloo"
is "... for gloo, too" "$(sort <<<"$out")" $'n1 eth0 eth0\nn2 eth0 eth0'
cluster_exec n1 umount /etc/hosts

# What hides GPUs.
hides='hides from each rank the GPUs of the others'
srun -N1 -n2 --gpus-per-task=1 --ddp=on "$tmp/gpu"
like "--gpus-per-task: what is lost, and what to write" "$err" "--gpus-per-task $hides.*write --gpus-per-node=N"
is "... in one line" "$(wc -l <<<"$err")" 1
is "... each rank has its own" "$(sort <<<"$out" | cut -d' ' -f2-5)" "0 0 of 0
1 0 of 1"
srun -w n1 -n1 --gpus-per-task=1 --ddp=on,mpi=none true : -w n2 -n1 --gpus-per-task=1 --ddp=on,mpi=none true
is "... once for a heterogeneous step" "$(grep -Ec "$hides" <<<"$err")" 1
srun -N1 -n2 --gpus-per-node=2 --gpu-bind=single:1 --ddp=on true
like "--gpu-bind" "$err" "--gpu-bind $hides"
srun -N1 -n2 --gpus-per-node=2 --gpu-bind=none --ddp=on true
is "--gpu-bind=none: no word" "$err" ""
srun -N1 -n2 --gpus-per-task=1 true
is "without --ddp: no word" "$err" ""
cat >"$tmp/job" <<JOB
#!/bin/sh
#SBATCH -N1 -n2 --gpus-per-task=1 --ddp=on
srun true
JOB
cluster_run env -u SLURM_CPU_BIND sbatch --wait -o "$cluster_dir/home/job.out" "$tmp/job"
# newer Slurm makes the second of it
is "under sbatch: once" "$(grep -Ec "SLURM_(GPUS|TRES)_PER_TASK $hides" "$cluster_dir/home/job.out") $err" "1 "

# OpenMP.
places='echo ${OMP_PLACES-none} $OMP_NUM_THREADS'
srun -N1 -n1 -c2 --ddp=on /bin/sh -c "$places"
is "OMP_PLACES is not set" "$out" "none 2"
OMP_PROC_BIND=true srun -N1 -n1 -c2 --ddp=on /bin/sh -c "$places"
is "... but for who binds" "$out" "cores 2"
cluster_run sinfo -h -N -t drain,down,fail -o "%N %T"
is "no node is the worse for it" "$rc$out" 0
done_testing
