/* boot_store.h - what one rank has put: a list of keys and values. Private to pmix/. */
#ifndef DDP_PMIX_BOOT_STORE_H
#define DDP_PMIX_BOOT_STORE_H

#include <stddef.h>

struct boot_item {
    struct boot_item *next;
    char *key;
    unsigned char *data;
    size_t n;
};

/* Copies key and data into the list; a key that is there already gets the new value. 0, or -1 when memory runs out. */
int boot_store_put(struct boot_item **list, const char *key, const void *data, size_t n);

const struct boot_item *boot_store_find(const struct boot_item *list, const char *key); /* borrowed, or NULL */

void boot_store_clear(struct boot_item **list);

#endif
