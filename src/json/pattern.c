/* The regular expressions of field tables, compiled on first use. */

#include "json/pattern.h"

#include <pthread.h>
#include <regex.h>

#include "base/map.h"
#include "base/must.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct map compiled; /* text of the pattern -> regex_t */

static const regex_t *pattern_get(const char *pattern)
{
    (void)pthread_mutex_lock(&lock);
    regex_t *re = map_get(&compiled, str_from(pattern));
    if (!re) {
        re = NEW(regex_t);
        must(regcomp(re, pattern, REG_EXTENDED | REG_NOSUB) == 0);
        map_put(&compiled, str_from(pattern), re);
    }
    (void)pthread_mutex_unlock(&lock);
    return re;
}

bool pattern_match(const char *pattern, const char *s)
{
    return regexec(pattern_get(pattern), s, 0, NULL, 0) == 0;
}
