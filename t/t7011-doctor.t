#!/bin/bash
# `ddp doctor`: what it says of the cluster of the tests, and of one with known faults.
source "${top_srcdir:-$(dirname "$0")/..}/t/lib/tap.sh"
source "$top_srcdir/t/lib/cluster.sh"
ddp=$top_builddir/ddp

said() { grep -E "^(ok|warn|FAIL) +$1 " <<<"$out"; }
doctor() {
    run setpriv --reuid nobody --regid nogroup --clear-groups env "SLURM_CONF=$cluster_dir/conf/slurm.conf" "$ddp" \
        doctor "$@"
}
levels() { awk '/^(ok|warn|FAIL) / { print $2 "=" $1 }' <<<"$out" | xargs; }

mkdir "$tmp/none" # without Slurm's commands
run env PATH="$tmp/none" "$ddp" doctor
like "no Slurm" "$rc:$(said slurm)" "^1:FAIL +slurm +scontrol cannot be run"

cluster_up 1
mpi=ok
[[ $(cluster_mpi) == pmix* ]] || mpi=warn # it says so
doctor
# The cluster has its plugin as required, no cgroups, and little time.
is "the cluster of the tests" "$rc:$(levels)" "0:slurm=ok plugin=warn order=ok site=ok option=ok mpi=$mpi \
proctrack=warn taskplugin=ok killwait=warn requeue=ok ports=ok topology=ok ends=ok" || diag "$out$err"
like "... the line to change" "$(said killwait)" "KillWait=30"
sed -i 's/^required/optional/' "$cluster_dir/conf/plugstack.conf"
doctor
like "a plugin that is well" "$(said plugin)" \
    "^ok +plugin +$top_builddir/.libs/ddp.so, built for Slurm $(cut -d. -f1,2 <<<"$(said slurm | awk '{ print $3 }')")"
# Slurm's own files: of a cluster with cgroups, as far as scontrol says.
mkdir "$tmp/bin"
cat >"$tmp/bin/scontrol" <<SCONTROL
#!/bin/sh
"$(command -v scontrol)" "\$@" | sed 's,proctrack/linuxproc,proctrack/cgroup,'
SCONTROL
chmod 755 "$tmp" "$tmp/bin" "$tmp/bin/scontrol"
echo "SignalChildrenProcesses=yes" >"$cluster_dir/conf/cgroup.conf"
PATH=$tmp/bin:$PATH doctor
like "cgroup.conf" "$(said proctrack)" "^warn +proctrack +$cluster_dir/conf/cgroup.conf: SignalChildrenProcesses=yes: "
rm "$cluster_dir/conf/cgroup.conf"
doctor --json
is "JSON" "$rc:$(python3 -c 'import json, sys; d = json.load(sys.stdin)
print(d["failed"], {i["item"]: i["verdict"] for i in d["items"]}["killwait"])' <<<"$out")" "0:False warn"
cluster_down

echo '{}' >"$tmp/site.json"
cluster_up 1 --site "$tmp/site.json" --conf WaitTime=30 --conf JobRequeue=0 --conf SrunPortRange=60001-60100 \
    --no-affinity
conf=$cluster_dir/conf/plugstack.conf
# What a step is refused for, of the site file and of the plugin's line.
both_refuse() { # WORDS: both a step and the site say these
    local step
    cluster_run srun --ddp=on true
    step=$rc:$err
    doctor
    like "$1: no step, and no site that is well" "${step//$'\n'/ } $rc:$(said site)" "^[1-9].*$1.* 1:FAIL .*$1"
}
site() {
    echo "$1" >"$tmp/site.json"
    both_refuse "$2"
}
site '{"bnd": "none"}' 'site.json:1: unknown key "bnd"'
site '{"enabled": 1}' 'enabled: must be true or false'
site '{"port_min": 80}' 'port_min: 80 is not allowed'
site '{"port_min": 21000, "port_min": 22000}' 'not JSON: duplicate object key'
site '{"stop": "KILL@9"}' 'site.json:1: stop=KILL@9: use none, or'
site '{"spares": 1}' 'site.json:1: spares is for programs that are started again'
chmod 666 "$tmp/site.json"
both_refuse "site.json must belong to root and be writable by root alone"
chmod 644 "$tmp/site.json"
echo '{}' >"$tmp/site.json"
sed -i 's/$/ sight=x/' "$conf"
both_refuse 'ddp.so takes site=/PATH only, not "sight=x"'
sed -i 's/ sight=x$//' "$conf"
doctor
like "a site file that is well" "$(said site)" "^ok +site +the plugin takes the site file"

# What the site file names, and this machine lacks; ports that are not those of the range.
fault() { # SITE ITEM WANT
    echo "$1" >"$tmp/site.json"
    doctor
    like "$1" "$(said "$2")" "$3"
}
fault '{"topo": "/nowhere/topo.xml"}' site '^FAIL +site +topo: /nowhere/topo.xml: No such file or directory: '
cluster_run srun --ddp=on true
like "... and so says a step" "$rc $err" '^1 .*ddp: n1: topo \(site file\): /nowhere/topo.xml: No such file'
fault '{"interface": "nosuch0"}' site '^FAIL +site +interface: this machine has no nosuch0: '
fault '{"port": 40000}' ports '^warn +ports +the kernel hands out port 40000, MASTER_PORT of all steps, itself: '
fault '{"port": 21000, "srun_port_min": 60001, "srun_port_max": 60100}' ports \
    '^ok +ports +port for MASTER_PORT, 20000 to 29999 for guards'
fault '{"port_min": 80}' ports '^$'

echo '{"enabled": false, "resv_ports": true}' >"$tmp/site.json"
mkdir "$cluster_dir/conf/more"
{ echo "optional /nowhere/spank_pyxis.so"; cat "$conf"; } >"$cluster_dir/conf/more/all.conf"
echo "include more/*.conf" >"$conf"
doctor
is "one with faults" "$rc:$(levels)" "1:slurm=ok plugin=warn order=FAIL site=FAIL option=ok mpi=$mpi \
proctrack=warn taskplugin=warn killwait=warn requeue=warn ports=warn topology=ok ends=warn" || diag "$out$err"
like "... the line of another plugin" "$(said order)" "$cluster_dir/conf/more/all.conf, line 1: /nowhere/spank_pyxis.so"
echo "include more/*.conf" >>"$conf"
doctor
like "... one line that is read twice" "$rc:$(said plugin)" \
    "^1:FAIL +plugin +$cluster_dir/conf/more/all.conf, line 2: the line of ddp.so is read twice, .*: leave one of the"
sed 1d "$cluster_dir/conf/more/all.conf" >>"$conf"
sed -i 1d "$conf"
doctor
like "... two lines, of which one is included" "$rc:$(said plugin)" \
    "^1:FAIL +plugin +$cluster_dir/conf/more/all.conf, line 2, and $conf, line 2: there are two lines"
{ cat "$cluster_dir/conf/more/all.conf"; cat "$cluster_dir/conf/more/all.conf"; } | grep -v pyxis >"$conf"
doctor
like "two lines" "$rc:$(said plugin)" "^1:FAIL +plugin +$conf, line 1, and $conf, line 2: there are two lines of ddp.so"
echo '{}' >"$tmp/site.json"
# shellcheck disable=SC2016
cluster_run srun --ddp=on,restarts=1 sh -c 'echo "$RANK $DDP_RESTART"; [ "$DDP_RESTART" = 1 ] || exit 3'
like "... a step runs all the same" "$rc $(xargs <<<"$out")" "^0 0 0 0 1$"
unlike "... and is warned of Slurm's own" "$err" "ddp: warning"
echo "optional /nowhere/ddp.so" >"$conf"
doctor
like "a plugin that is not there" "$rc:$(said plugin)" "^1:FAIL +plugin +$conf, line 1: cannot read /nowhere/ddp.so"
like "... and so no option" "$(said option)" "^FAIL +option +srun --help has no --ddp: \"srun -vv"
set=$cluster_dir/conf/set/plugstack.conf
mkdir "${set%/*}"
echo "optional $top_builddir/.libs/ddp.so" >"$set"
sed -i "s,^PlugStackConfig=.*,PlugStackConfig=$set," "$cluster_dir/conf/slurm.conf"
is_set() { SLURM_CONF=$cluster_dir/conf/slurm.conf scontrol show config | grep "^PlugStackConfig *= $set\$"; }
SLURM_CONF=$cluster_dir/conf/slurm.conf scontrol reconfigure
ok "slurm.conf sets another plugstack.conf" until_true 20 is_set
doctor
like "... which is read, not the one beside it" "$(said plugin)" "^ok +plugin "
rm "$set"
doctor
like "no plugstack.conf" "$rc:$(said plugin)" "^1:FAIL +plugin +$set has no line of ddp.so: add \"optional "
done_testing
