/* replay FILE... - runs a fuzz target on each file and prints how many there were. */
#include <stdio.h>
#include <stdlib.h>

#include "t/fuzz/fuzz.h"

static void replay(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(data, 1, sizeof data, f) : 0;
    if (!f || ferror(f)) {
        perror(path);
        exit(1);
    }
    fclose(f);
    uint8_t *exact = malloc(n ? n : 1); /* so that a read beyond it is seen */
    if (!exact)
        exit(1);
    for (size_t i = 0; i < n; i++)
        exact[i] = data[i];
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    printf("%d inputs\n", argc - 1);
    return argc > 1 ? 0 : 1;
}
