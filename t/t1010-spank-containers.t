#!/bin/bash
# Steps whose programs run in containers: a user and a mount namespace for each task, whose root has /usr, the build and
# nothing of Slurm's. What a container runtime makes that is started by the user's command, or by a later plugin.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
probe=$top_builddir/t/lib/bootprobe train=$top_builddir/train
setpriv --reuid nobody --regid nogroup --clear-groups unshare -Urm true 2>"$tmp/userns.err" ||
    skip_all "needs user namespaces for everybody (kernel.unprivileged_userns_clone)"
[ -f "$top_builddir/.libs/ddp.so" ] || skip_all "this build lacks the plugin"

cat >"$tmp/container" <<SCRIPT
#!/bin/bash
# container COMMAND...: runs it in a root of its own.
[ "\$1" = --inside ] || exec unshare -Urm --propagation private bash "\$0" --inside "\$@"
shift
root=/mnt
mount -t tmpfs none \$root
mkdir -p \$root/{usr,proc,dev,tmp,etc,sys} "\$root$(realpath "$top_builddir")" "\$root$tmp/out"
for link in bin lib lib64 sbin; do [ ! -L /\$link ] || ln -s usr/\$link \$root/\$link; done
for dir in /usr /proc /dev /sys "$(realpath "$top_builddir")" "$tmp/out"; do mount --rbind "\$dir" "\$root\$dir"; done
cp /etc/{hosts,passwd,ld.so.cache} \$root/etc/
exec chroot \$root "\$@"
SCRIPT
chmod 755 "$tmp" "$tmp/container"
mkdir -m 777 "$tmp/out"

cluster_up 2
cluster_run srun --ddp=on,mpi=pmi2 -N2 -n4 "$tmp/container" /bin/sh -c 'ls / | xargs; echo $DDP_VERSION'
version=$(sed -n 's/^#define DDP_VERSION "\(.*\)"/\1/p' "$top_srcdir/runtime/ddp.h")
top=$(realpath "$top_builddir") top=${top#/} # the container has the tree's own folder, too
like "tasks are in containers, with our variables" "$rc $(sort -u <<<"$out" | xargs)" \
    "^0 $version bin dev etc lib.* proc sbin (srv )?sys tmp .*usr( ${top%%/*})?$"

trains() { # DESC KEYS [COMMAND THAT EXECUTES IT]...
    cluster_run srun -K "--ddp=on$2" -N2 -n4 "$tmp/container" "${@:3}" \
        "$train" --data /usr/share/common-licenses --steps 1
    like "$1" "$rc $out$err" "^0 .*step 1/1 "
}
trains "training over PMI, whose descriptor a container inherits" ,mpi=pmi2
trains "an image's libddp of another version than the plugin's works" ,mpi=pmi2 env DDP_VERSION=9.9.9
cluster_run srun --ddp=on,mpi=pmi2 -N1 -n1 "$tmp/container" env DDP_VERSION=9.9.9 bash -c \
    'exec 2>&1; eval "exec $PMI_FD<&-"; exec "$1" --data /usr/share/common-licenses --steps 1' - "$train"
like "... and is named where ranks do not find each other" "$out" \
    "libddp 0.* under the plugin of slurm-ddp 9\.9\.9: PMI_FD"

# The guide's container, of an image that has nothing but a program and its libraries.
sed -n "/^    cat >container <<'SCRIPT'/,/^    SCRIPT/s/^    //p" "$top_srcdir/doc/user.md" | sed '1d;$d' >"$tmp/guide"
chmod 755 "$tmp/guide"
image=$tmp/image
mkdir -p "$image"/{proc,dev,sys,etc}
cp /etc/hosts "$image/etc"
cp "$top_builddir/t/lib/bootprobe" "$image"
ldd "$probe" | grep -oE '/[^ ]+' | while read -r library; do cp -L --parents "$library" "$image"; done
chmod -R a+rX "$image"
cluster_run srun -K --ddp=on,mpi=pmi2 -N2 -n4 "$tmp/guide" "$image" /bootprobe
is "the guide's container finds its ranks" "$rc $(grep -c '^rank [0-3] of 4' <<<"$out") $err" "0 4 "

# A plugin that enters the container in its task_init, before and after ours: plugstack.conf's order decides.
mkdir "$tmp/etc"
site=$tmp/etc/site.json
echo '{ "omp": 3, "mpi": "pmi2" }' >"$site" && chmod 644 "$site" && chmod 755 "$tmp/etc"
ours="required $(realpath "$top_builddir/.libs/ddp.so") site=$site"
enters="required $(realpath "$top_builddir/t/lib/.libs/enters.so") $tmp/etc"
# shellcheck disable=SC2016
show='[ -e "$0" ] || echo "in a container, OMP_NUM_THREADS=$OMP_NUM_THREADS"'
printf '%s\n' "$ours" "$enters" >"$cluster_dir/conf/plugstack.conf"
cluster_run srun --ddp=on -N2 -n2 sh -c "$show" "$site"
is "above a plugin that enters containers, ours reads the node's site file" "$rc $(sort -u <<<"$out")" \
    "0 in a container, OMP_NUM_THREADS=3"
cluster_run srun -K --ddp=on -N2 -n4 "$train" --data /usr/share/common-licenses --steps 1
like "... and the step trains" "$rc $out$err" "^0 .*step 1/1 "
printf '%s\n' "$enters" "$ours" >"$cluster_dir/conf/plugstack.conf"
cluster_run srun --ddp=on -N2 -n2 sh -c "$show" "$site"
like "below it, the image's, which has none: the defaults hold" "$rc $(sort -u <<<"$out" | xargs)" \
    "^0 in a container, OMP_NUM_THREADS="
unlike "... not the site's" "$out" "OMP_NUM_THREADS=3$"
ok "... and the nodes' logs say so" grep -rq "no site file $site" "$cluster_dir/log"
# The last: behind it slurmstepd 25.11 may wait for good, in PMIx 5.0.7's PMIx_server_finalize.
echo "$ours" >"$cluster_dir/conf/plugstack.conf"
if [[ $(cluster_mpi) == pmix* ]]; then
    cluster_run srun --ddp=on,mpi=pmix -N1 -n1 "$tmp/container" "$probe"
    like "PMIx, whose socket it hides, says so and names the cure" "$rc $(grep -c . <<<"$err") $err" \
        "^1 .*bootprobe: PMIx finds no server here .*container.*mpi=pmi2"
fi
done_testing
