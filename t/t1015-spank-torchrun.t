#!/bin/bash
# torchrun in one task a node, without options: a job over all nodes, on hosts one of which is 127.0.1.1 to itself.
source "$(dirname "$0")/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
python=/usr/bin/python3
"$python" -c 'import torch.distributed.run' 2>/dev/null || skip_all "no PyTorch: Debian's package python3-torch"
why=$("$python" -c 'import torch.distributed as d; d.TCPStore("127.0.0.1", 0, 1, True)' 2>&1) || case $why in
*"without libuv"*) skip_all "this PyTorch has no libuv, which its torchrun asks for" ;;
esac
cluster_up 2 --cpus 4 --netns
sed -E 's/^.*[[:space:]]n1$/127.0.1.1 n1/' "$cluster_dir"/hosts.* >"$tmp/hosts"
cluster_exec n1 mount --bind "$tmp/hosts" /etc/hosts

# All ranks add up their ranks over gloo.
cat >"$tmp/add.py" <<'ADD'
import os
import sys
import torch
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1) * dist.get_rank()
dist.all_reduce(x)
print("rank", os.environ["RANK"], "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"], "threads",
      os.environ.get("OMP_NUM_THREADS"), "sum", int(x), *sys.argv[1:], flush=True)
dist.destroy_process_group()
ADD
chmod -R a+rX "$tmp"
run_deadline=100
# PyTorch 1.13's own default for both is not understood under Python 3.11: of a rank that is not there.
export PET_REDIRECTS=9:1 PET_TEE=9:1
cluster_run srun --ddp=on -N2 -n2 "$python" -m torch.distributed.run "$tmp/add.py"
is "no options: one rank a node" "$rc $(sort <<<"$out")" "0 rank 0 of 2 local 0 threads None sum 1
rank 1 of 2 local 0 threads None sum 1" || diag "$err"
done_testing
