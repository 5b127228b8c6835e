/* xml.h - hwloc's records, made plain before hwloc sees them. Pure.
 *
 * hwloc without its libxml plugin reads only XML laid out as hwloc itself writes it, and takes for granted that it is
 * well formed. This reader takes the rest of XML that such a record may have got on its way: comments, other quotes and
 * white space, numeric character references. */
#ifndef DDP_TOPOLOGY_XML_H
#define DDP_TOPOLOGY_XML_H

#include <stddef.h>

#include "runtime/base/error.h"

enum { XML_DEPTH_MAX = 100 }; /* elements within elements; records of real machines have some 25 */

/* text: n bytes. Returns the same record in hwloc's layout, which ends in a NUL and the caller frees; *ret_n counts the
 * NUL. NULL with DDP_E_DATA, which names `what` and the line: not well formed, not a <topology>, of a later major
 * version than major_max, deeper than XML_DEPTH_MAX, or with a part that no record has (CDATA, entities of its own,
 * control characters, names that hwloc does not use). */
char *xml_tidy(const char *text, size_t n, const char *what, int major_max, size_t *ret_n, ddp_error_t *errp);

#endif
