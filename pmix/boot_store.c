#include "pmix/boot_store.h"

#include <stdlib.h>
#include <string.h>

static void item_destroy(struct boot_item *it)
{
    if (!it)
        return;
    free(it->key);
    free(it->data);
    free(it);
}

int boot_store_put(struct boot_item **list, const char *key, const void *data, size_t n)
{
    struct boot_item *it = calloc(1, sizeof *it);
    if (!it || !(it->key = strdup(key)) || !(it->data = malloc(n + 1))) {
        item_destroy(it);
        return -1;
    }
    if (n)
        memcpy(it->data, data, n);
    it->n = n;
    it->next = *list;
    *list = it; /* in front, so that it hides an older value of the key */
    return 0;
}

const struct boot_item *boot_store_find(const struct boot_item *list, const char *key)
{
    while (list && strcmp(list->key, key) != 0)
        list = list->next;
    return list;
}

void boot_store_clear(struct boot_item **list)
{
    while (*list) {
        struct boot_item *it = *list;
        *list = it->next;
        item_destroy(it);
    }
}
