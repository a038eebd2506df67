/* Runs a fuzz target over files instead of under libFuzzer: the regression test of its corpus. */

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rbe");
    if (!f) {
        perror(path);
        return -1;
    }
    struct stat st;
    if (fstat(fileno(f), &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)fclose(f);
        return 0;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1);
    if (!data) {
        abort();
    }
    size_t got = fread(data, 1, size, f);
    (void)fclose(f);
    (void)LLVMFuzzerTestOneInput(data, got);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **list;
        int found = scandir(argv[i], &list, NULL, alphasort);
        for (int k = 0; k < found; k++) {
            char path[4096];
            (void)snprintf(path, sizeof(path), "%s/%s", argv[i], list[k]->d_name);
            int r = run_file(path);
            if (r < 0) {
                return 1;
            }
            n += r;
            free(list[k]);
        }
        if (found >= 0) {
            free(list);
        }
    }
    printf("%d inputs\n", n);
    return n > 0 ? 0 : 1; /* an empty corpus is a mistake, not a pass */
}
