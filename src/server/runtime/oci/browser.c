/* Policy files of browsers as JSON. */

#include "server/runtime/oci/browser.h"

#include <errno.h>

#include "base/cleanup.h"
#include "json/json.h"

#define PEM_BEGIN "-----BEGIN CERTIFICATE-----"
#define PEM_END "-----END CERTIFICATE-----"

/* The member, made when it is not there; NULL when it is something else. */
static struct json *member(struct json *obj, const char *key, bool is_array)
{
    struct json *j = json_get(obj, key);
    if (!j) {
        json_set(obj, key, is_array ? json_array_new() : json_object_new());
        j = json_get(obj, key);
    }
    return (is_array ? json_is_array(j) : json_is_object(j)) ? j : NULL;
}

int browser_firefox(struct str old, const char *ca_path, struct buf *out)
{
    cleanup_(json_free) struct json *root = old.n ? json_parse(old, NULL) : json_object_new();
    struct json *policies = json_is_object(root) ? member(root, "policies", false) : NULL;
    struct json *certificates = policies ? member(policies, "Certificates", false) : NULL;
    struct json *install = certificates ? member(certificates, "Install", true) : NULL;
    if (!install) {
        return -EINVAL;
    }
    for (size_t i = 0; i < json_len(install); i++) {
        if (str_eq(json_str(json_item(install, i)), str_from(ca_path))) {
            return json_dump(root, out, 2);
        }
    }
    json_push(install, json_string_new(str_from(ca_path)));
    return json_dump(root, out, 2);
}

int browser_chromium(struct str pem, struct buf *out)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "CACertificates");
    json_arr_begin(&o);
    for (;;) {
        ptrdiff_t from = str_find_str(pem, STR(PEM_BEGIN)), to = str_find_str(pem, STR(PEM_END));
        if (from < 0 || to < from) {
            break;
        }
        cleanup_(buf_done) struct buf der = BUF_INIT(BROWSER_POLICY_MAX);
        for (size_t i = (size_t)from + sizeof(PEM_BEGIN) - 1; i < (size_t)to; i++) {
            if (pem.p[i] > ' ') {
                (void)buf_add_char(&der, pem.p[i]);
            }
        }
        json_put_str(&o, buf_str(&der));
        pem = str_sub(pem, (size_t)to + sizeof(PEM_END) - 1, pem.n);
    }
    json_arr_end(&o);
    json_obj_end(&o);
    return buf_failed(out) ? -ENOSPC : 0;
}
