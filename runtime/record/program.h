/* program.h - what a program is called in a record and in metrics. */
#ifndef DDP_RECORD_PROGRAM_H
#define DDP_RECORD_PROGRAM_H

#define PROGRAM_NAME_MAX 127

/* By its arguments, without folders: "train", "python train.py": the first word, and the next one, of Python's the
 * script or module, unless that is an option. Pure. */
void program_name(int argc, char *const *argv, char ret[PROGRAM_NAME_MAX + 1]);

/* This process, by /proc. */
void program_own_name(char ret[PROGRAM_NAME_MAX + 1]);

#endif
