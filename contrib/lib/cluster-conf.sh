# shellcheck shell=bash disable=SC2034,SC2154
# cluster-conf.sh - the files in DIR of a cluster of $n nodes.

write_conf() {
    local i
    mkdir "$dir"/{conf,pid,log,munge,state,home,dev}
    for ((i = 1; i <= n; i++)); do mkdir "$dir/spool.n$i" "$dir/tmp.n$i" && chmod 1777 "$dir/tmp.n$i"; done
    chmod 1777 "$dir/home"
    (umask 077 && head -c 128 /dev/urandom >"$dir/munge/key")
    chown root "$dir/munge/key"
    write_hosts >"$dir/hosts.$id"
    write_slurm_conf >"$dir/conf/slurm.conf"
    : >"$dir/conf/cgroup.conf"
    [ ${#beside[@]} -eq 0 ] || cp -- "${beside[@]}" "$dir/conf"
    write_plugstack >"$dir/conf/plugstack.conf"
    [ "$gpus" -eq 0 ] || write_gres
    chmod -R a+rX "$dir/conf" "$dir/hosts.$id"
}

write_hosts() {
    echo "127.0.0.1 localhost"
    # slurmctld tells srun that its job has ended: newer ones hold the job's end for ten seconds where they do not find
    # its host.
    echo "$(ctl_addr) ctl $(hostname)"
    for ((i = 1; i <= n; i++)); do echo "$(node_addr "$i") n$i"; done
}

write_slurm_conf() {
    local i mib
    mib=$(awk '/^MemTotal/ { print int($2 / 1024) }' /proc/meminfo)
    cat <<CONF
ClusterName=ddp$id
SlurmctldHost=ctl($(ctl_addr))
SlurmctldPort=$port
SlurmUser=root
# Job numbers go into MASTER_PORT: clusters side by side need different ones.
FirstJobId=$port
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$dir/munge/socket
StateSaveLocation=$dir/state
SlurmctldPidFile=$dir/pid/slurmctld.own
SlurmdPidFile=$dir/pid/slurmd.%n.own
# Without folders per node, PMIx steps on a second node fail.
SlurmdSpoolDir=$dir/spool.%n
TmpFS=$dir/tmp.%n
# slurmstepd's messages, the plugin's among them; without it they go to syslog.
SlurmdLogFile=$dir/log/slurmd.%n
# Without cgroups the machine's own version of them does not matter. Production has them: contrib/check --long, too.
ProctrackType=proctrack/${DDP_TEST_PROCTRACK:-linuxproc}
TaskPlugin=task/$affinity
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
MpiParams=ports=$((port + n + 1))-$((port + n + 32 + cpus))
PlugStackConfig=$dir/conf/plugstack.conf
# The nodes say that they have other CPUs than they have, and may be slow on a busy machine.
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldTimeout=300
SlurmdTimeout=300
MessageTimeout=60
BatchStartTimeout=60
InactiveLimit=0
KillWait=5
MailProg=/bin/true
CONF
    [ "$gpus" -eq 0 ] || echo "GresTypes=gpu"
    for ((i = 1; i <= n; i++)); do
        echo "NodeName=n$i NodeAddr=$(node_addr "$i") Port=$((port + i)) Sockets=1 CoresPerSocket=$cpus" \
            "ThreadsPerCore=1 RealMemory=$mib$([ "$gpus" -eq 0 ] || echo " Gres=gpu:$gpus") State=UNKNOWN"
    done
    echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=YES State=UP"
    [ ${#extra[@]} -eq 0 ] || printf '%s\n' "${extra[@]}"
}

write_plugstack() {
    [ -z "$plugin" ] || echo "required $plugin${site:+ site=$site}"
}

# GPUs that only the scheduler believes in: device files that nobody opens.
write_gres() {
    local i
    for ((i = 0; i < gpus; i++)); do mknod -m 666 "$dir/dev/nvidia$i" c 1 3; done
    echo "NodeName=n[1-$n] Name=gpu File=$dir/dev/nvidia$([ "$gpus" -eq 1 ] && echo 0 || echo "[0-$((gpus - 1))]")" \
        >"$dir/conf/gres.conf"
}
