/* stopping.h - a task whose guard hears of stops, for unit tests: what both write on stderr, and Slurm's commands,
 * which are scripts of the test's. */
#ifndef DDP_T_UNIT_SPANK_STOPPING_H
#define DDP_T_UNIT_SPANK_STOPPING_H

#include "t/lib/folder.h"
#include "t/unit/spank/guard_task.h"

/* One rank, which is its own root, with stop=USR1 (before_s > 0: so long before the job's end). */
struct guards_facts facts_of(int before_s);
extern char path_variable[128]; /* "PATH=...", of its environment */

/* Programs. Catches, and says each signal, until it has had SIGHUP or SIGWINCH; or catches nothing. */
int catches(int out);
int sleeps(int out);

/* Of the task: what it and its guard write is t.in's. */
struct task start(const struct guards_facts *f, int program(int out));
int read_until(struct task t, const char *part, char *text, size_t size); /* adds to text; -1: it ends before */
int end(struct task t); /* waits for it: its status */

/* In test_folder: a command of Slurm's, before which it notes its arguments; what has been noted so far. */
void put_command(const char *name, const char *format, long long value);
void put_scontrol(const char *format, long long value);
void read_asked(char *buf, size_t size);

#define JOB "echo JobId=12 UserId=u BatchFlag=1 Requeue=1 Restarts=0 JobState=RUNNING EndTime=%lld\n"

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)

#endif
