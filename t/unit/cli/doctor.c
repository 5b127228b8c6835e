/* `ddp doctor`: the formats that it reads, and what it says of a site. */
#include "t/unit/unit.h"

#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cli/doctor/doctor.h"

static char good_config[] = "Configuration data as of 2026-11-23T10:00:00\n"
                            "AuthInfo                = (null)\n"
                            "JobRequeue              = 1\n"
                            "KillOnBadExit           = 0\n"
                            "KillWait                = 30 sec\n"
                            "MpiDefault              = none\n"
                            "MpiParams               = (null)\n"
                            "PlugStackConfig         = /etc/slurm/plugstack.conf\n"
                            "ProctrackType           = proctrack/cgroup\n"
                            "SchedulerParameters     = (null)\n"
                            "SLURM_VERSION           = 22.05.8\n"
                            "SrunPortRange           = 0-0\n"
                            "TaskPlugin              = task/cgroup,task/affinity\n"
                            "TopologyPlugin          = topology/tree\n"
                            "WaitTime                = 0 sec\n"
                            "\n"
                            "Slurmctld(primary) at ctl is UP\n";
static char good_mpi[] = "MPI plugin types are...\n\tcray_shasta\n\tnone\n\tpmi2\n\tpmix\n"
                         "specific pmix plugin versions available: pmix_v4\n";
static char good_help[] = "Usage: srun\n      --ddp=KEYS\n";
static char good_version[] = "slurm-wlm 22.05.8\n";
static const char good_stack[] = "# all of them\n"
                                 "optional /usr/lib/slurm-ddp/ddp.so site=/etc/slurm/ddp.json\n"
                                 "required   /usr/lib/slurm/spank_pyxis.so execute_entrypoint=0 # containers\n";

static struct doctor doc;
static struct verdicts said;
static char config[2048];

static void well(void)
{
    doc = (struct doctor){.config = config, .mpi = good_mpi, .help = good_help, .version = good_version,
                          .plugstack = "/p.conf", .is_plugstack_known = true,
                          .plugin_slurm = 0x160508, .has_site = true, .is_enabled = true, .port_min = 20000,
                          .port_max = 29999, .own_port_min = 32768, .own_port_max = 60999};
    strcpy(config, good_config);
    doctor_parse(&doc, "/p.conf", good_stack, NULL);
}

/* The line of a key becomes another. */
static void set(const char *key, const char *value)
{
    char rest[sizeof config], *at = strstr(config, key);
    assert_non_null(at);
    strcpy(rest, strchr(at, '\n'));
    size_t room = sizeof config - (size_t)(at - config);
    assert_true((size_t)snprintf(at, room, "%s = %s%s", key, value, rest) < room);
}

static void expect(const char *item, enum verdict_level level, const char *found, const char *cure)
{
    memset(&said, 0, sizeof said);
    doctor_judge(&doc, &said);
    const struct verdict *v = NULL;
    for (size_t i = 0; i < said.n; i++) {
        if (!strcmp(said.of[i].item, item))
            v = &said.of[i];
        else if (said.of[i].level != VERDICT_OK)
            fail_msg("%s: %s", said.of[i].item, said.of[i].found);
    }
    if (!v || v->level != level || !strstr(v->found, found) || !strstr(v->cure, cure))
        fail_msg("%s: %s: %s", item, v ? v->found : "nothing", v ? v->cure : "");
}

static void values(void **state)
{
    char buf[64];
    (void)state;
    assert_string_equal(doctor_get(good_config, "KillWait", buf, sizeof buf), "30");
    assert_string_equal(doctor_get(good_config, "killwait", buf, sizeof buf), "30");
    assert_string_equal(doctor_get(good_config, "TaskPlugin", buf, sizeof buf), "task/cgroup,task/affinity");
    assert_string_equal(doctor_get(good_config, "AuthInfo", buf, sizeof buf), "");
    assert_null(doctor_get(good_config, "Kill", buf, sizeof buf));
    assert_null(doctor_get(good_config, "NoSuchKey", buf, sizeof buf));
    assert_null(doctor_get("KillWait 3", "KillWait", buf, sizeof buf));
    assert_string_equal(doctor_get("KillWait =", "KillWait", buf, sizeof buf), "");
    assert_string_equal(doctor_get("#a=1\n \ta\t=\t2\n", "a", buf, sizeof buf), "2");
}

static char patterns[256];
static void take_pattern(struct doctor *d, const char *pattern)
{
    (void)d;
    snprintf(patterns + strlen(patterns), sizeof patterns - strlen(patterns), "%s ", pattern);
}

static void plugstack(void **state)
{
    (void)state;
    well();
    assert_int_equal(doc.n_lines, 2);
    assert_string_equal(doctor_own_line(&doc, NULL)->args, "site=/etc/slurm/ddp.json");
    assert_string_equal(doc.line[1].plugin, "/usr/lib/slurm/spank_pyxis.so");
    assert_true(doc.line[1].is_required && doc.line[1].number == 3);
    doctor_parse(&doc, "/etc/slurm/p.conf", "include p.d/*\ninclude /x/*.conf\n#include no\nnonsense /y\noptional\n"
                 "Optional /usr/lib/ddp.so\nREQUIRED /x.so\nInclude /y/*\n",
                 take_pattern);
    assert_string_equal(patterns, "/etc/slurm/p.d/* /x/*.conf ");
    assert_int_equal(doc.n_lines, 2);
}

static void files(void **state)
{
    char root[] = "/tmp/ddp-doctor-XXXXXX", conf[64], printed[64], cache[64], dirs[160], path[256], ret[256];
    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(conf, sizeof conf, "%s/slurm.conf", root);
    snprintf(printed, sizeof printed, "%s/ctl/plugstack.conf", root);
    snprintf(cache, sizeof cache, "%s/run", root);
    struct doctor_places p = {.printed = "/etc/slurm/slurm.conf", .conf = conf, .cache = cache};
    assert_false(doctor_find_conf(printed, &p, ret, sizeof ret));
    assert_string_equal(ret, printed);
    snprintf(path, sizeof path, "%s/plugstack.conf", cache);
    assert_int_equal(mkdir(cache, 0700), 0);
    fclose(fopen(path, "w"));
    assert_true(doctor_find_conf(printed, &p, ret, sizeof ret));
    assert_string_equal(ret, path); /* that of a node without files of its own */
    p = (struct doctor_places){.printed = "/etc/slurm/slurm.conf", .cache = "/none"};
    assert_true(doctor_find_conf(path, &p, ret, sizeof ret));
    assert_string_equal(ret, path); /* the printed one */
    snprintf(conf, sizeof conf, "%s/run/slurm.conf", root);
    p.conf = conf;
    assert_true(doctor_find_conf("/etc/slurm/plugstack.conf", &p, ret, sizeof ret));
    assert_string_equal(ret, path); /* the one beside SLURM_CONF */
    snprintf(printed, sizeof printed, "%s/plugstack.conf", root);
    fclose(fopen(printed, "w"));
    assert_true(doctor_find_conf(printed, &p, ret, sizeof ret));
    assert_string_equal(ret, printed); /* the one that slurm.conf sets */
    unlink(printed);
    assert_false(doctor_find_conf(printed, &p, ret, sizeof ret)); /* whatever is beside SLURM_CONF */
    snprintf(dirs, sizeof dirs, "/none:%s", cache);
    assert_true(doctor_find_plugin("plugstack.conf", dirs, ret, sizeof ret));
    assert_string_equal(ret, path);
    assert_true(doctor_find_plugin("/x/ddp.so", dirs, ret, sizeof ret));
    assert_string_equal(ret, "/x/ddp.so");
    assert_false(doctor_find_plugin("ddp.so", dirs, ret, sizeof ret));
    unlink(path);
    rmdir(cache);
    rmdir(root);
}

static void a_site_that_is_well(void **state)
{
    (void)state;
    well();
    expect("plugin", VERDICT_OK, "ddp.so, built for Slurm 22.05.8", "");
    assert_int_equal(said.n, 13);
    assert_false(verdicts_failed(&said));
}

static void the_plugin(void **state)
{
    (void)state;
    well();
    doc.plugin_slurm = 0x170b04;
    expect("plugin", VERDICT_FAIL, "built for Slurm 23.11, and this is 22.05", "built for this Slurm");
    static char newer[] = "slurm 23.11.5\n"; /* the controller may be of another release */
    doc.version = newer;
    expect("plugin", VERDICT_OK, "built for Slurm 23.11.4", "");
    doc.plugin_slurm = 0;
    expect("plugin", VERDICT_FAIL, "/p.conf, line 2: /usr/lib/slurm-ddp/ddp.so is no SPANK plugin", "install");
    strcpy(doc.plugin_error, "/usr/lib/slurm-ddp/ddp.so: No such file or directory");
    expect("plugin", VERDICT_FAIL, "/p.conf, line 2: /usr/lib/slurm-ddp/ddp.so: No such file", "install");
    well();
    doc.line[0].is_required = true;
    expect("plugin", VERDICT_WARN, "\"required\"", "\"optional\"");
    well();
    doc.line[1] = doc.line[0];
    expect("plugin", VERDICT_FAIL, "/p.conf, line 2: the line of ddp.so is read twice", "lines that include it");
    strcpy(doc.line[1].file, "/more.conf");
    expect("plugin", VERDICT_FAIL, "/p.conf, line 2, and /more.conf, line 2: there are two lines", "leave one of them");
    well();
    doc.n_lines = 0;
    expect("plugin", VERDICT_FAIL, "/p.conf has no line of ddp.so", "add \"optional ");
    doc.is_plugstack_known = false;
    expect("plugin", VERDICT_WARN, "which plugstack.conf is not known", "srun -vv --help");
    strcpy(doc.plugstack_error, "/p.conf: Permission denied");
    expect("plugin", VERDICT_WARN, "Permission denied", "read it");
    well();
    strcpy(doc.line[1].plugin, "/usr/lib/slurm-ddp/ddp.so");
    strcpy(doc.line[0].plugin, "/usr/lib/slurm/spank_pyxis.so");
    doc.line[1].is_required = false;
    doc.line[1].args[0] = 0;
    expect("order", VERDICT_FAIL, "/p.conf, line 2: /usr/lib/slurm/spank_pyxis.so stands before", "above it");
    well();
    doc.help = good_mpi;
    expect("option", VERDICT_FAIL, "no --ddp", "-vv");
    well();
    doc.is_enabled = false;
    expect("site", VERDICT_FAIL, "refuses", "\"enabled\": true");
    strcpy(doc.site_error, "/etc/slurm/ddp.json:1: not JSON");
    expect("site", VERDICT_FAIL, "not JSON", "site=");
    well();
    strcpy(doc.site_missing, "/etc/slurm/ddp.json"); /* as on the nodes of a configless cluster */
    expect("site", VERDICT_WARN, "no /etc/slurm/ddp.json here: the defaults hold", "site=");
    well();
    strcpy(doc.line[0].args, "sight=x");
    expect("site", VERDICT_FAIL, "/p.conf, line 2: ddp.so takes site=/PATH only, not \"sight=x\"", "mend the line");
    strcpy(doc.line[0].args, "site=/etc/slurm/ddp.json\tsite=ddp.json");
    expect("site", VERDICT_FAIL, "not \"site=ddp.json\"", "mend the line");
}

static void slurm_conf(void **state)
{
    static char pmi2[] = "MPI plugin types are...\n\tnone\n\tpmi2\n", none[] = "\tnone\n\tcray\n";
    (void)state;
    well();
    doc.mpi = pmi2;
    expect("mpi", VERDICT_WARN, "no PMIx", "--with-pmix");
    doc.mpi = none;
    expect("mpi", VERDICT_FAIL, "neither PMIx nor PMI", "mpi_pmix");
    well();
    set("ProctrackType", "proctrack/linuxproc");
    expect("proctrack", VERDICT_WARN, "proctrack/linuxproc", "ProctrackType=proctrack/cgroup");
    well();
    static char no[] = "#SignalChildrenProcesses=yes\nsignalchildrenprocesses=no\n",
                yes[] = "ConstrainCores=no\n  SignalChildrenProcesses = True # all\n";
    strcpy(doc.cgroup_conf, "/c.conf");
    doc.cgroup = no;
    expect("proctrack", VERDICT_OK, "proctrack/cgroup", "");
    doc.cgroup = yes;
    expect("proctrack", VERDICT_WARN, "/c.conf: SignalChildrenProcesses=yes", "SignalChildrenProcesses=no");
    set("ProctrackType", "proctrack/linuxproc"); /* which has no such option */
    expect("proctrack", VERDICT_WARN, "proctrack/linuxproc", "ProctrackType=proctrack/cgroup");
    well();
    set("TaskPlugin ", "task/none");
    expect("taskplugin", VERDICT_WARN, "task/none", "TaskPlugin=task/cgroup,task/affinity");
    well();
    set("KillWait", "5 sec");
    expect("killwait", VERDICT_WARN, "5 s from SIGTERM", "KillWait=30");
    well();
    set("JobRequeue", "0");
    expect("requeue", VERDICT_WARN, "JobRequeue=0", "JobRequeue=1");
    well();
    expect("requeue", VERDICT_OK, "120 s", "");
    set("AuthInfo", "socket=/x,cred_expire=60");
    expect("requeue", VERDICT_OK, "60 s", "");
    set("SchedulerParameters", "bf_interval=30,requeue_delay=5");
    expect("requeue", VERDICT_OK, "60 s at the earliest (AuthInfo=cred_expire=)", ""); /* it knows no requeue_delay */
    char many[1024] = "";
    while (strlen(many) < 900)
        strcat(many, "bf_max_job_test=1000,");
    strcat(many, "requeue_delay=5");
    set("SchedulerParameters", many);
    set("SLURM_VERSION", "25.11.1");
    expect("requeue", VERDICT_OK, "5 s at the earliest (requeue_delay)", "");
    well();
    set("WaitTime", "30 sec");
    expect("ends", VERDICT_WARN, "WaitTime=30", "WaitTime=0");
}

static void ports(void **state)
{
    (void)state;
    well();
    doc.own_port_min = 1024;
    expect("ports", VERDICT_WARN, "drawn from 20000 to 29999, and the kernel hands out 1024 to 60999",
           "ip_local_reserved_ports");
    static char reserved[] = "8080,20000-25000,25001-30000\n", too_few[] = "8080,20000-24999,25001-30000\n";
    doc.reserved_ports = reserved;
    expect("ports", VERDICT_OK, "20000 to 29999", "");
    doc.reserved_ports = too_few;
    expect("ports", VERDICT_WARN, "the kernel hands out", "");
    doc.wants_resv_ports = true; /* what fails comes before what is worth a look */
    expect("ports", VERDICT_FAIL, "resv_ports", "MpiParams=ports=");
    well();
    doc.port_max = 20015;
    expect("ports", VERDICT_WARN, "20000 to 20015", "\"port_max\"");
    well();
    set("SrunPortRange", "60001-63000");
    expect("ports", VERDICT_WARN, "SrunPortRange=60001-63000", "\"srun_port_min\"");
    doc.srun_port_min = 60001;
    doc.srun_port_max = 63000;
    expect("ports", VERDICT_OK, "20000 to 29999", "");
    well();
    doc.wants_resv_ports = true;
    expect("ports", VERDICT_FAIL, "resv_ports", "MpiParams=ports=");
    set("MpiParams", "ports=30000-30999");
    expect("ports", VERDICT_OK, "20000 to 29999", "");
}

static void no_slurm(void **state)
{
    (void)state;
    well();
    doc.config = NULL;
    strcpy(doc.config_error, "scontrol cannot be run: there is no such program in PATH");
    expect("slurm", VERDICT_FAIL, "scontrol cannot be run", "Slurm's commands work");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(values), cmocka_unit_test(plugstack), cmocka_unit_test(files),
    cmocka_unit_test(a_site_that_is_well), cmocka_unit_test(the_plugin), cmocka_unit_test(slurm_conf),
    cmocka_unit_test(ports), cmocka_unit_test(no_slurm),
};

UNIT_MAIN(tests)
