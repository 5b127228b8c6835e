/* cli.h - the verbs of the command `ddp`. Each is a main of its own: argv[0] is the verb, the return value the exit
 * code (2: wrong usage). */
#ifndef DDP_RUNTIME_CLI_CLI_H
#define DDP_RUNTIME_CLI_CLI_H

#define CLI_USAGE 2

int cli_check(int argc, char **argv);
int cli_ckpt(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_ps(int argc, char **argv);
int cli_report(int argc, char **argv);
int cli_requeue(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_topo(int argc, char **argv);

#endif
