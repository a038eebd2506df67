/* Loading libcurl. */

#include "server/fetch/libcurl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/must.h"

#define SONAME "libcurl.so.4" /* the interface that curl has kept since 2006 */

struct libcurl libcurl;

static const struct {
    const char *name;
    size_t at;
} functions[] = {
    {"curl_global_init", offsetof(struct libcurl, global_init)},
    {"curl_easy_init", offsetof(struct libcurl, easy_init)},
    {"curl_easy_cleanup", offsetof(struct libcurl, easy_cleanup)},
    {"curl_easy_reset", offsetof(struct libcurl, easy_reset)},
    {"curl_easy_setopt", offsetof(struct libcurl, easy_setopt)},
    {"curl_easy_getinfo", offsetof(struct libcurl, easy_getinfo)},
    {"curl_easy_perform", offsetof(struct libcurl, easy_perform)},
    {"curl_easy_strerror", offsetof(struct libcurl, easy_strerror)},
    {"curl_slist_append", offsetof(struct libcurl, slist_append)},
    {"curl_slist_free_all", offsetof(struct libcurl, slist_free_all)},
};
_Static_assert(ARRAY_LEN(functions) * sizeof(void *) == sizeof(struct libcurl), "one row each");

static struct err failure; /* of the one attempt */

static int load(struct err *e)
{
    void *lib = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL); /* for the life of the process */
    if (!lib) {
        return err_set(e, ERR_UNSUPPORTED, "libcurl is not installed: %s", dlerror());
    }
    for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
        void *fn = dlsym(lib, functions[i].name);
        if (!fn) {
            return err_set(e, ERR_UNSUPPORTED, SONAME " has no %s", functions[i].name);
        }
        memcpy((char *)&libcurl + functions[i].at, &fn, sizeof(fn));
    }
    if (libcurl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        return err_set(e, ERR_INTERNAL, "libcurl does not start");
    }
    return 0;
}

static void load_once(void)
{
    (void)load(&failure);
}

int libcurl_load(struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load_once);
    return failure.code ? err_set(e, failure.code, "%s", failure.msg) : 0;
}
