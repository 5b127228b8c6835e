/* show.h - a placement for people and programs. Pure: each function returns a new text that the caller frees, or NULL
 * where memory is short. */
#ifndef DDP_TOPOLOGY_SHOW_H
#define DDP_TOPOLOGY_SHOW_H

#include "topology/placement.h"

struct show {
    const struct inventory *inventory;
    const struct placement_request *request;
    const struct place *place; /* [request->n_ranks] */
    const char *about;         /* a line for the head of text, SVG and JSON: "8 ranks: one per GPU"; NULL: none */
};

/* Only the ranks: a line of headings and a line for each rank; ranks that differ only by their number are folded into
 * one line if that is shorter. The text does not contain the node's name, so that equal texts mean equal nodes. Ends in
 * a newline. */
char *show_table(const struct show *s);

/* The machine (packages, NUMA nodes, caches, cores, GPUs, NICs, and their distances) and the table. */
char *show_text(const struct show *s);

/* The same as one JSON object; its keys are in doc/placement.md. */
char *show_json(const struct show *s);

/* The same as a picture: a complete SVG file. */
char *show_svg(const struct show *s);

/* Why this rank got what it got, in sentences. */
char *show_explain(const struct show *s, int rank);

#endif
