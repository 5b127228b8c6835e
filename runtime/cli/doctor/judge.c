/* judge.c - what is wrong with a site's Slurm, for --ddp, and the line to change. The guide for admins,
 * admin.md, explains why: its part is named. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/num.h"
#include "runtime/cli/doctor/doctor.h"
#include "spank/keys/site.h"

struct judge {
    const struct doctor *d;
    struct verdicts *out;
    char value[8192]; /* of the key that was asked for last */
};

/* "" where it is not known. */
static const char *get(struct judge *j, const char *key)
{
    j->value[0] = 0;
    doctor_get(j->d->config, key, j->value, sizeof j->value);
    return j->value;
}

static int get_number(struct judge *j, const char *key, int otherwise)
{
    const char *text = get(j, key);
    char *end;
    long n = strtol(text, &end, 10);
    return end == text ? otherwise : (int)n;
}

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    static const char edge[] = " ,\t\n:";
    for (const char *p = text; (p = strstr(p, word)); p += n)
        if ((p == text || strchr(edge, p[-1])) && (!p[n] || strchr(edge, p[n])))
            return true;
    return false;
}

/* 22.05.8, also behind "slurm-wlm ", as 0x160508; 0: it has none. */
static unsigned version_of(const char *text)
{
    text += strcspn(text, "0123456789");
    unsigned major = 0, minor = 0, patch = 0;
    return sscanf(text, "%u.%u.%u", &major, &minor, &patch) >= 2 ? major << 16 | minor << 8 | patch : 0;
}

/* ---- the plugin ---- */

static void judge_plugin(struct judge *j)
{
    const struct doctor *d = j->d;
    const struct doctor_line *own = doctor_own_line(d, NULL), *other = own ? doctor_own_line(d, own) : NULL;
    unsigned slurm = version_of(d->version ? d->version : ""), built = d->plugin_slurm;
    if (!own && d->plugstack_error[0])
        verdict_add(j->out, VERDICT_WARN, "plugin", "let users read it, or run this as root", "%s",
                    d->plugstack_error);
    else if (!own && !d->is_plugstack_known && d->help && strstr(d->help, "--ddp"))
        verdict_add(j->out, VERDICT_WARN, "plugin", "nothing, if jobs have it; \"srun -vv --help\" names what it "
                    "loads", "which plugstack.conf is not known: srun has --ddp, but there is no %s", d->plugstack);
    else if (!own)
        verdict_add(j->out, VERDICT_FAIL, "plugin", "add \"optional LIBDIR/slurm-ddp/ddp.so\" (admin.md: Install)",
                    "%s has no line of ddp.so", d->plugstack);
    else if (other && own->number == other->number && !strcmp(own->file, other->file))
        verdict_add(j->out, VERDICT_FAIL, "plugin", "leave one of the lines that include it", "%s, line %d: the line "
                    "of ddp.so is read twice, of which each srun complains", own->file, own->number);
    else if (other)
        verdict_add(j->out, VERDICT_FAIL, "plugin", "leave one of them", "%s, line %d, and %s, line %d: there are two "
                    "lines of ddp.so, of which each srun complains", own->file, own->number, other->file,
                    other->number);
    else if (d->plugin_error[0])
        verdict_add(j->out, VERDICT_FAIL, "plugin", "install slurm-ddp on this machine, or mend the line", "%s, line "
                    "%d: %s", own->file, own->number, d->plugin_error);
    else if (!built)
        verdict_add(j->out, VERDICT_FAIL, "plugin", "install slurm-ddp again, or mend the line", "%s, line %d: %s is "
                    "no SPANK plugin", own->file, own->number, own->plugin);
    else if (slurm && built >> 8 != slurm >> 8)
        verdict_add(j->out, VERDICT_FAIL, "plugin", "install one that was built for this Slurm (admin.md: What "
                    "optional hides)", "%s was built for Slurm %u.%02u, and this is %u.%02u", own->plugin, built >> 16,
                    built >> 8 & 255, slurm >> 16, slurm >> 8 & 255);
    else if (own->is_required)
        verdict_add(j->out, VERDICT_WARN, "plugin", "write \"optional\" there (admin.md: Install)", "%s, line %d: "
                    "\"required\": no slurmd starts where ddp.so is missing or of another Slurm", own->file,
                    own->number);
    else
        verdict_add(j->out, VERDICT_OK, "plugin", NULL, "%s, built for Slurm %u.%02u.%u", own->plugin, built >> 16,
                    built >> 8 & 255, built & 255);
}

static void judge_option(struct judge *j)
{
    const struct doctor *d = j->d;
    if (!d->help)
        verdict_add(j->out, VERDICT_FAIL, "option", "install Slurm's commands here", "%s", d->help_error);
    else if (!strstr(d->help, "--ddp"))
        verdict_add(j->out, VERDICT_FAIL, "option", "\"srun -vv --help\" says what keeps it from being loaded",
                    "srun --help has no --ddp");
    else
        verdict_add(j->out, VERDICT_OK, "option", NULL, "srun --help has --ddp");
}

/* In its task_init such a plugin enters the container; what comes behind it reads the image's files. */
static bool enters_containers(const char *plugin)
{
    static const char *const names[] = {"pyxis", "enroot", "singularity", "apptainer", "sarus", "shifter", "contain"};
    const char *slash = strrchr(plugin, '/');
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(slash ? slash + 1 : plugin, names[i]))
            return true;
    return false;
}

static void judge_order(struct judge *j)
{
    const struct doctor *d = j->d;
    const struct doctor_line *own = doctor_own_line(d, NULL);
    for (const struct doctor_line *l = d->line; own && l < own; l++)
        if (enters_containers(l->plugin)) {
            verdict_add(j->out, VERDICT_FAIL, "order", "put the line of ddp.so above it (admin.md: Install)", "%s, "
                        "line %d: %s stands before ddp.so, which then reads the image's /sys and site file", l->file,
                        l->number, l->plugin);
            return;
        }
    if (own)
        verdict_add(j->out, VERDICT_OK, "order", NULL, "no plugin for containers stands before ddp.so");
}

/* True if the plugin takes all arguments of its line. */
static bool judge_arguments(struct judge *j, const struct doctor_line *own)
{
    char arg[DOCTOR_PATH_MAX];
    bool is_well = true;
    for (const char *at = own->args; *doctor_word(&at, arg, sizeof arg);)
        if (!site_argument(arg)) {
            verdict_add(j->out, VERDICT_FAIL, "site", "mend the line (spank_ddp(8))", "%s, line %d: ddp.so takes "
                        "site=/PATH only, not \"%.64s\"", own->file, own->number, arg);
            is_well = false;
        }
    return is_well;
}

static void judge_site(struct judge *j)
{
    const struct doctor *d = j->d;
    const struct doctor_line *own = doctor_own_line(d, NULL);
    if (!own || !judge_arguments(j, own))
        return;
    if (d->site_error[0])
        verdict_add(j->out, VERDICT_FAIL, "site", "write it as ddp.json(5) says, root's own and readable by all, or "
                    "leave site= out", "%s", d->site_error);
    else if (d->site_missing[0])
        verdict_add(j->out, VERDICT_WARN, "site", "write it as ddp.json(5) says, or leave site= out", "there is no "
                    "%s here: the defaults hold", d->site_missing);
    else if (!d->is_enabled)
        verdict_add(j->out, VERDICT_FAIL, "site", "\"enabled\": true", "the site file refuses --ddp=on");
    else if (d->site_fault[0])
        verdict_add(j->out, VERDICT_FAIL, "site", "what all nodes have, or leave it out (ddp.json(5))", "%s",
                    d->site_fault);
    else
        verdict_add(j->out, VERDICT_OK, "site", NULL, d->has_site ? "the plugin takes the site file" : "no site "
                    "file: the defaults hold");
}

/* ---- slurm.conf ---- */

static void judge_mpi(struct judge *j)
{
    const struct doctor *d = j->d;
    const char *otherwise = get(j, "MpiDefault");
    if (!d->mpi)
        verdict_add(j->out, VERDICT_FAIL, "mpi", "install Slurm's commands here", "%s", d->mpi_error);
    else if (has_word(d->mpi, "pmix"))
        verdict_add(j->out, VERDICT_OK, "mpi", NULL, "PMIx, which --ddp=on asks for (MpiDefault=%s holds without it); "
                    "\"srun --mpi=pmix true\" tries it", *otherwise ? otherwise : "none");
    else if (has_word(d->mpi, "pmi2"))
        verdict_add(j->out, VERDICT_WARN, "mpi", "nothing, unless MPI programs want PMIx: then build Slurm "
                    "--with-pmix", "this Slurm has no PMIx: steps meet over PMI");
    else
        verdict_add(j->out, VERDICT_FAIL, "mpi", "install Slurm's mpi_pmix or mpi_pmi2", "this Slurm has neither PMIx "
                    "nor PMI: programs of libddp can meet by guards alone (--ddp=guard)");
}

/* Slurm takes yes, up, true and 1. */
static bool signals_children(const struct doctor *d)
{
    char value[64];
    return d->cgroup && doctor_get(d->cgroup, "SignalChildrenProcesses", value, sizeof value) && value[0] &&
           strchr("yYuUtT1", value[0]);
}

static void judge_proctrack(struct judge *j)
{
    if (strcmp(get(j, "ProctrackType"), "proctrack/cgroup"))
        verdict_add(j->out, VERDICT_WARN, "proctrack", "ProctrackType=proctrack/cgroup (admin.md: What happens on "
                    "errors)", "%s: processes can outlive their step, and drain the node", j->value);
    else if (signals_children(j->d))
        verdict_add(j->out, VERDICT_WARN, "proctrack", "SignalChildrenProcesses=no (admin.md: Stops and requeues)",
                    "%s: SignalChildrenProcesses=yes: beside a guard each of Slurm's signals comes to programs twice, "
                    "and with stop= SIGTERM ends them unsaved", j->d->cgroup_conf);
    else
        verdict_add(j->out, VERDICT_OK, "proctrack", NULL, "proctrack/cgroup");
}

static void judge_tasks(struct judge *j)
{
    const char *plugins = get(j, "TaskPlugin");
    if (strstr(plugins, "affinity") && strstr(plugins, "cgroup"))
        verdict_add(j->out, VERDICT_OK, "taskplugin", NULL, "%s", plugins);
    else if (strstr(plugins, "affinity") || strstr(plugins, "cgroup"))
        verdict_add(j->out, VERDICT_OK, "taskplugin", NULL, "%s; TaskPlugin=task/cgroup,task/affinity is what "
                    "slurm.conf(5) recommends", plugins);
    else
        verdict_add(j->out, VERDICT_WARN, "taskplugin", "TaskPlugin=task/cgroup,task/affinity", "%s: Slurm confines no "
                    "task, so --ddp=on leaves the CPU masks alone", *plugins ? plugins : "none");
}

static void judge_killwait(struct judge *j)
{
    int wait = get_number(j, "KillWait", -1);
    if (wait >= 0 && wait < 30)
        verdict_add(j->out, VERDICT_WARN, "killwait", "KillWait=30, or more (admin.md: Stops and requeues)", "%d s "
                    "from SIGTERM to SIGKILL: a checkpoint on a stop has to be done by then", wait);
    else
        verdict_add(j->out, VERDICT_OK, "killwait", NULL, "%d s from SIGTERM to SIGKILL, for a checkpoint", wait);
}

static void judge_requeue(struct judge *j)
{
    const char *expire = strstr(get(j, "AuthInfo"), "cred_expire=");
    int s = expire ? atoi(expire + strlen("cred_expire=")) : 120;
    bool is_new = version_of(get(j, "SLURM_VERSION")) >= 0x190b00; /* the first to know requeue_delay= */
    const char *delay = is_new ? strstr(get(j, "SchedulerParameters"), "requeue_delay=") : NULL;
    if (delay)
        s = atoi(delay + strlen("requeue_delay="));
    if (get_number(j, "JobRequeue", 1) == 0)
        verdict_add(j->out, VERDICT_WARN, "requeue", "JobRequeue=1, or users say sbatch --requeue", "JobRequeue=0: "
                    "requeue=auto does nothing for jobs without --requeue");
    else
        verdict_add(j->out, VERDICT_OK, "requeue", NULL, "jobs may go back into the queue, and start again after %d s "
                    "at the earliest (%s)", s, delay ? "requeue_delay" : is_new ?
                    "SchedulerParameters=requeue_delay= is shorter" : "AuthInfo=cred_expire=");
}

static bool parse_range(const char *text, int *low, int *high)
{
    return sscanf(text, "%d-%d", low, high) == 2 && *high > 0;
}

/* The kernel hands out some of these ports, and they are not kept from it. */
static bool hands_out(const struct doctor *d, int min, int max)
{
    int low = min > d->own_port_min ? min : d->own_port_min, high = max < d->own_port_max ? max : d->own_port_max;
    return d->own_port_min && low <= high && !(d->reserved_ports && num_list_has(d->reserved_ports, low, high));
}

static void judge_ports(struct judge *j)
{
    const struct doctor *d = j->d;
    int low, high;
    bool has_reserved = strstr(get(j, "MpiParams"), "ports=");
    const char *range = get(j, "SrunPortRange");
    if (d->site_error[0])
        return; /* there are no steps, and so no ports */
    if (d->wants_resv_ports && !has_reserved)
        verdict_add(j->out, VERDICT_FAIL, "ports", "MpiParams=ports=30000-30999", "the site file wants ports that "
                    "Slurm reserves (resv_ports), and slurm.conf has none");
    else if (d->port_max - d->port_min + 1 < 32)
        verdict_add(j->out, VERDICT_WARN, "ports", "\"port_max\": 32 or more above port_min (ddp.json(5))", "%d to %d "
                    "is room for neither guards nor a MASTER_PORT that others cannot know", d->port_min, d->port_max);
    else if (d->port && hands_out(d, d->port, d->port))
        verdict_add(j->out, VERDICT_WARN, "ports", "on all nodes net.ipv4.ip_local_reserved_ports, or another port",
                    "the kernel hands out port %d, MASTER_PORT of all steps, itself", d->port);
    else if (hands_out(d, d->port_min, d->port_max))
        verdict_add(j->out, VERDICT_WARN, "ports", "on all nodes net.ipv4.ip_local_reserved_ports, or another "
                    "port_min, port_max (admin.md: The site file)", "MASTER_PORT is drawn from %d to %d, and the "
                    "kernel hands out %d to %d itself", d->port_min, d->port_max, d->own_port_min, d->own_port_max);
    else if (parse_range(range, &low, &high) &&
             (d->srun_port_min < low || d->srun_port_max > high || !d->srun_port_max))
        verdict_add(j->out, VERDICT_WARN, "ports", "\"srun_port_min\", \"srun_port_max\" in ddp.json(5), within that "
                    "range", "SrunPortRange=%s, but nodes reach srun for --ddp at any port: a firewall that asks for "
                    "the range keeps them out", range);
    else if (d->port || d->wants_resv_ports)
        verdict_add(j->out, VERDICT_OK, "ports", NULL, "%s for MASTER_PORT, %d to %d for guards; let them through "
                    "between nodes", d->port ? "port" : "what Slurm reserves", d->port_min, d->port_max);
    else
        verdict_add(j->out, VERDICT_OK, "ports", NULL, "%d to %d for MASTER_PORT and guards, beside the kernel's own; "
                    "let them through between nodes", d->port_min, d->port_max);
}

static void judge_topology(struct judge *j)
{
    const char *plugin = get(j, "TopologyPlugin");
    if (!*plugin || strstr(plugin, "none") || strstr(plugin, "default") || strstr(plugin, "flat"))
        verdict_add(j->out, VERDICT_OK, "topology", NULL, "%s: right for one switch; with several, "
                    "TopologyPlugin=topology/tree keeps a job's nodes near each other", *plugin ? plugin : "none");
    else
        verdict_add(j->out, VERDICT_OK, "topology", NULL, "%s", plugin);
}

/* What ends a step with its first task, which guards, who start programs again, must not have. */
static void judge_ends(struct judge *j)
{
    int wait = get_number(j, "WaitTime", 0), kill = get_number(j, "KillOnBadExit", 0);
    if (wait > 0)
        verdict_add(j->out, VERDICT_WARN, "ends", "WaitTime=0", "WaitTime=%d: a step ends so long after its first "
                    "task, also where guards go on without a lost node (spares=, min_nodes=)", wait);
    else if (kill > 0)
        verdict_add(j->out, VERDICT_OK, "ends", NULL, "KillOnBadExit=1, which --ddp=on sets for each step as it needs "
                    "it");
    else
        verdict_add(j->out, VERDICT_OK, "ends", NULL, "WaitTime=0, KillOnBadExit=0: --ddp=on sets what a step needs");
}

void doctor_judge(const struct doctor *d, struct verdicts *ret)
{
    struct judge j = {.d = d, .out = ret};
    if (!d->config)
        verdict_add(ret, VERDICT_FAIL, "slurm", "run this where Slurm's commands work", "%s", d->config_error);
    else
        verdict_add(ret, VERDICT_OK, "slurm", NULL, "%s", get(&j, "SLURM_VERSION"));
    judge_plugin(&j);
    judge_order(&j);
    judge_site(&j);
    judge_option(&j);
    judge_mpi(&j);
    if (!d->config)
        return;
    judge_proctrack(&j);
    judge_tasks(&j);
    judge_killwait(&j);
    judge_requeue(&j);
    judge_ports(&j);
    judge_topology(&j);
    judge_ends(&j);
}
