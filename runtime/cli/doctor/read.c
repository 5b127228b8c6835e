/* read.c - what this machine says of its Slurm. */
#include "runtime/cli/doctor/doctor.h"

#include <elf.h>
#include <errno.h>
#include <glob.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/io.h"
#include "runtime/sched/command.h"
#include "spank/keys/site.h"

#define OUTPUT_MAX (256u << 10)
#define ANSWER_S 10.0 /* of each command */
#define FILE_MAX (1u << 20)
#define PLUGIN_MAX (64u << 20)
#define CACHED_CONF "/run/slurm/conf" /* of a node without files of its own */

static char *ask(const char *const argv[], char why[256])
{
    char *out = malloc(OUTPUT_MAX);
    ddp_error_t e = {0};
    if (out && command_run(argv, deadline_in(ANSWER_S), -1, out, OUTPUT_MAX, &e) == 0)
        return out;
    snprintf(why, 256, "%s", out ? e.text : "no memory");
    free(out);
    return NULL;
}

/* ---- plugstack.conf ---- */

static void read_plugstack(struct doctor *d, const char *path);

static void read_pattern(struct doctor *d, const char *pattern)
{
    static int depth;
    glob_t g;
    if (depth > 4 || glob(pattern, 0, NULL, &g) != 0)
        return;
    depth++;
    for (size_t i = 0; i < g.gl_pathc; i++)
        read_plugstack(d, g.gl_pathv[i]);
    depth--;
    globfree(&g);
}

static void read_plugstack(struct doctor *d, const char *path)
{
    size_t n;
    ddp_error_t e;
    char *text = io_read_file(path, FILE_MAX, &n, &e);
    if (text)
        doctor_parse(d, path, text, read_pattern);
    else if (e.code != ENOENT && !d->plugstack_error[0]) /* no file: no line */
        snprintf(d->plugstack_error, sizeof d->plugstack_error, "%s", e.text);
    free(text);
}

/* ---- ddp.so ---- */

/* A section's header, if it and its content are within the file; NULL: they are not. */
static const Elf64_Shdr *section(const char *file, size_t n, size_t i)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)file;
    uint64_t at = h->e_shoff + i * sizeof(Elf64_Shdr);
    const Elf64_Shdr *s = (const Elf64_Shdr *)(file + at);
    if (i >= h->e_shnum || h->e_shoff > n || at > n || n - at < sizeof *s || s->sh_offset > n ||
        s->sh_size > n - s->sh_offset)
        return NULL;
    return s;
}

static const Elf64_Shdr *dynamic_symbols(const char *file, size_t n)
{
    const Elf64_Shdr *s;
    for (size_t i = 0; i < ((const Elf64_Ehdr *)file)->e_shnum; i++)
        if ((s = section(file, n, i)) && s->sh_type == SHT_DYNSYM && s->sh_offset % 8 == 0)
            return s;
    return NULL;
}

/* The 32 bits at a virtual address; 0: no segment of the file has them. */
static unsigned word_at(const char *file, size_t n, uint64_t address)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)file;
    for (size_t i = 0; i < h->e_phnum; i++) {
        uint64_t at = h->e_phoff + i * sizeof(Elf64_Phdr);
        const Elf64_Phdr *p = (const Elf64_Phdr *)(file + at);
        unsigned word;
        if (at > n || n - at < sizeof *p)
            return 0;
        uint64_t in = address - p->p_vaddr;
        if (p->p_type != PT_LOAD || address < p->p_vaddr || in >= p->p_filesz || p->p_offset > n ||
            n - p->p_offset < in || n - p->p_offset - in < sizeof word)
            continue;
        memcpy(&word, file + p->p_offset + in, sizeof word);
        return word;
    }
    return 0;
}

/* plugin_version, which Slurm compares: from the file, since only a Slurm program can load it. 0: not found. */
static unsigned slurm_of(const char *file, size_t n)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)file;
    if (n < sizeof *h || memcmp(file, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_shoff % 8 ||
        h->e_phoff % 8)
        return 0;
    const Elf64_Shdr *symbols = dynamic_symbols(file, n), *names = symbols ? section(file, n, symbols->sh_link) : NULL;
    for (uint64_t i = 0; names && i < symbols->sh_size / sizeof(Elf64_Sym); i++) {
        const Elf64_Sym *s = (const Elf64_Sym *)(file + symbols->sh_offset) + i;
        static const char want[] = "plugin_version";
        if (s->st_name < names->sh_size && names->sh_size - s->st_name >= sizeof want &&
            !memcmp(file + names->sh_offset + s->st_name, want, sizeof want))
            return word_at(file, n, s->st_value);
    }
    return 0;
}

static void read_plugin(struct doctor *d, const char *name)
{
    size_t n;
    ddp_error_t e;
    char path[DOCTOR_PATH_MAX], dirs[4096] = "";
    if (d->config)
        doctor_get(d->config, "PluginDir", dirs, sizeof dirs);
    if (!doctor_find_plugin(name, dirs, path, sizeof path)) {
        snprintf(d->plugin_error, sizeof d->plugin_error, "%.120s is not in PluginDir, %.300s", name, dirs);
        return;
    }
    char *file = io_read_file(path, PLUGIN_MAX, &n, &e);
    if (file)
        d->plugin_slurm = slurm_of(file, n);
    else
        snprintf(d->plugin_error, sizeof d->plugin_error, "%s", e.text);
    free(file);
}

/* ---- the site file, and the kernel's ports ---- */

static const char *no_variable(const char *name, void *arg)
{
    (void)name;
    (void)arg;
    return NULL;
}

static void find_fault(struct doctor *d, const struct keys *o)
{
    const struct knob_value *topo = &o->key[KEY_TOPO], *interface = &o->key[KEY_INTERFACE];
    if (topo->is_set && topo->text[0] && access(topo->text, R_OK) < 0)
        snprintf(d->site_fault, sizeof d->site_fault, "topo: %.160s: %s", topo->text, strerror(errno));
    else if (interface->is_set && interface->text[0] && !if_nametoindex(interface->text))
        snprintf(d->site_fault, sizeof d->site_fault, "interface: this machine has no %.64s", interface->text);
}

/* What holds for a step of which the user says --ddp=on alone. site may be NULL. */
static int take_keys(struct doctor *d, const struct keys *site, ddp_error_t *errp)
{
    struct keys o;
    if (keys_resolve("on", no_variable, NULL, site, &o, errp) < 0)
        return -1;
    d->is_enabled = o.key[KEY_ENABLED].b;
    d->wants_resv_ports = o.key[KEY_RESV_PORTS].b;
    d->port = o.key[KEY_PORT].is_set ? (int)o.key[KEY_PORT].i : 0;
    d->port_min = (int)o.key[KEY_PORT_MIN].i;
    d->port_max = (int)o.key[KEY_PORT_MAX].i;
    d->srun_port_min = (int)o.key[KEY_SRUN_PORT_MIN].i;
    d->srun_port_max = (int)o.key[KEY_SRUN_PORT_MAX].i;
    find_fault(d, &o);
    return 0;
}

static void read_site(struct doctor *d, const char *path)
{
    bool is_missing = false;
    struct keys site = {.mode = DDP_MODE_UNSET};
    ddp_error_t e;
    d->has_site = true;
    if (site_load(path, &site, &is_missing, &e) < 0 || take_keys(d, &site, &e) < 0)
        snprintf(d->site_error, sizeof d->site_error, "%s", e.text);
    else if (is_missing)
        snprintf(d->site_missing, sizeof d->site_missing, "%s", path);
}

static void read_arguments(struct doctor *d, const struct doctor_line *own)
{
    char arg[DOCTOR_PATH_MAX], path[DOCTOR_PATH_MAX] = "";
    for (const char *at = own->args, *p; *doctor_word(&at, arg, sizeof arg);)
        if ((p = site_argument(arg)))
            snprintf(path, sizeof path, "%s", p);
    if (path[0])
        read_site(d, path);
}

static void read_own_ports(struct doctor *d)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (!f || fscanf(f, "%d %d", &d->own_port_min, &d->own_port_max) != 2)
        d->own_port_min = d->own_port_max = 0;
    if (f)
        fclose(f);
    if ((f = fopen("/proc/sys/net/ipv4/ip_local_reserved_ports", "re"))) {
        size_t size = 0;
        if (getline(&d->reserved_ports, &size, f) < 0 && d->reserved_ports)
            d->reserved_ports[0] = 0;
        fclose(f);
    }
}

/* The value of a key of `scontrol show config`, or what it is by default. */
static void get_path(const struct doctor *d, const char *key, const char *otherwise, char ret[DOCTOR_PATH_MAX])
{
    if (!d->config || !doctor_get(d->config, key, ret, DOCTOR_PATH_MAX) || !ret[0])
        snprintf(ret, DOCTOR_PATH_MAX, "%s", otherwise);
}

/* plugstack.conf, and cgroup.conf, which is always beside slurm.conf. */
static void find_files(struct doctor *d)
{
    size_t n;
    char conf[DOCTOR_PATH_MAX], stack[DOCTOR_PATH_MAX], cgroup[2 * DOCTOR_PATH_MAX];
    get_path(d, "SLURM_CONF", "/etc/slurm/slurm.conf", conf);
    get_path(d, "PlugStackConfig", "/etc/slurm/plugstack.conf", stack);
    const struct doctor_places p = {.printed = conf, .conf = getenv("SLURM_CONF"), .cache = CACHED_CONF};
    d->is_plugstack_known = doctor_find_conf(stack, &p, d->plugstack, sizeof d->plugstack);
    const char *slash = strrchr(conf, '/');
    snprintf(cgroup, sizeof cgroup, "%.*s/cgroup.conf", slash ? (int)(slash - conf) : 0, conf);
    if (doctor_find_conf(cgroup, &p, d->cgroup_conf, sizeof d->cgroup_conf))
        d->cgroup = io_read_file(d->cgroup_conf, FILE_MAX, &n, NULL);
}

void doctor_read(struct doctor *ret)
{
    static const char *const config[] = {"scontrol", "show", "config", NULL};
    static const char *const mpi[] = {"srun", "--mpi=list", NULL}, *const help[] = {"srun", "--help", NULL};
    static const char *const version[] = {"srun", "--version", NULL};
    char why[256]; /* srun --help's says it */
    const struct doctor_line *own;
    *ret = (struct doctor){0};
    take_keys(ret, NULL, NULL);
    ret->config = ask(config, ret->config_error);
    ret->help = ask(help, ret->help_error);
    ret->mpi = ask(mpi, ret->mpi_error);
    ret->version = ask(version, why);
    read_own_ports(ret);
    find_files(ret);
    read_plugstack(ret, ret->plugstack);
    if (!(own = doctor_own_line(ret, NULL)))
        return;
    read_plugin(ret, own->plugin);
    read_arguments(ret, own);
}

void doctor_free(struct doctor *d)
{
    free(d->config);
    free(d->mpi);
    free(d->help);
    free(d->version);
    free(d->cgroup);
    free(d->reserved_ports);
}
