/* Reading, changing and asking policies. */

#include "egress/policy.h"

#include <ctype.h>
#include <errno.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/must.h"
#include "egress/limits.h"
#include "net/domain.h"
#include "json/json.h"

/* Lowest number, from 1, of a rule for exactly this name and for what is below it; 0: none. */
struct index_entry {
    size_t exact, below;
};

struct policy_index {
    struct map names; /* name -> struct index_entry */
    struct index_entry *entries;
    size_t n_nets;
};

/* ---- rules ---- */

static int action_parse(struct str s, const char *what, enum policy_action *ret, struct err *e)
{
    s = str_trim_space(s);
    if (!s.n || str_eq_nocase(s, STR("deny"))) {
        *ret = POLICY_DENY;
    } else if (str_eq_nocase(s, STR("allow"))) {
        *ret = POLICY_ALLOW;
    } else {
        return err_set(e, ERR_INVALID, "%s must be \"allow\" or \"deny\", not \"%.*s\"", what,
                       (int)MIN(s.n, 64u), s.p);
    }
    return 0;
}

/* A target that could never match anything is a typo and refused. */
static int rule_classify(struct policy_rule *r, struct str target, struct err *e)
{
    char clean[DOMAIN_MAX + 1];
    if (cidr_parse(target, &r->cidr) == 0) {
        r->kind = POLICY_NET;
        return 0;
    }
    r->kind = POLICY_NAME;
    if (domain_target(target, clean, &r->wildcard) < 0) {
        return err_set(e, ERR_INVALID,
                       "target \"%.*s\" is neither a name, \"*.\" and a name, an address nor a "
                       "network",
                       (int)MIN(target.n, 128u), target.p);
    }
    r->name = xstrdup(clean);
    return 0;
}

static int rule_init(struct policy_rule *r, enum policy_action action, struct str target,
                     struct err *e)
{
    *r = (struct policy_rule){.action = action};
    target = str_trim_space(target);
    if (!target.n) {
        return err_set(e, ERR_INVALID, "the target of a rule must not be empty");
    }
    if (target.n > EGRESS_MAX_TARGET) {
        return err_set(e, ERR_INVALID, "a target has at most %d bytes", EGRESS_MAX_TARGET);
    }
    if (rule_classify(r, target, e) < 0) {
        return -1;
    }
    r->target = str_dup(target);
    return 0;
}

static void rule_copy(struct policy_rule *to, const struct policy_rule *from)
{
    *to = *from;
    to->target = xstrdup(from->target);
    to->name = from->name ? xstrdup(from->name) : NULL;
}

static struct json *get_nocase(const struct json *obj, struct str key)
{
    void *it = NULL;
    const char *k;
    struct json *v;
    while (json_next(obj, &it, &k, &v)) {
        if (str_eq_nocase(str_from(k), key)) {
            return v;
        }
    }
    return NULL;
}

static int text_of(const struct json *v, const char *what, struct str *ret, struct err *e)
{
    if (v && !json_is_null(v) && !json_is_string(v)) {
        return err_set(e, ERR_INVALID, "%s must be a string", what);
    }
    *ret = json_str(v);
    return 0;
}

static int rule_decode(struct policy_rule *r, const struct json *j, struct err *e)
{
    struct str action = STR_NULL, target = STR_NULL;
    enum policy_action a = POLICY_DENY;
    if (!json_is_object(j)) {
        return err_set(e, ERR_INVALID, "a rule must be an object");
    }
    if (text_of(get_nocase(j, STR("action")), "action", &action, e) < 0 ||
        text_of(get_nocase(j, STR("target")), "target", &target, e) < 0 ||
        action_parse(action, "action", &a, e) < 0) {
        return -1;
    }
    return rule_init(r, a, target, e);
}

/* ---- policies ---- */

static struct policy *policy_new(size_t n_max)
{
    struct policy *p = NEW(struct policy);
    p->rules = xcalloc(MAX(n_max, 1u), sizeof(*p->rules));
    return p;
}

void policy_free(struct policy *p)
{
    if (!p) {
        return;
    }
    for (size_t i = 0; i < p->n_rules; i++) {
        free(p->rules[i].target);
        free(p->rules[i].name);
    }
    if (p->index) {
        map_done(&p->index->names);
        free(p->index->entries);
        free(p->index);
    }
    free(p->rules);
    free(p);
}

static struct policy *policy_seal(struct policy *p)
{
    struct policy_index *x = p->index = NEW(struct policy_index);
    size_t n = 0;
    x->entries = xcalloc(MAX(p->n_rules, 1u), sizeof(*x->entries));
    for (size_t i = 0; i < p->n_rules; i++) {
        const struct policy_rule *r = &p->rules[i];
        if (r->kind == POLICY_NET) {
            x->n_nets++;
            continue;
        }
        struct index_entry *en = map_get(&x->names, str_from(r->name));
        if (!en) {
            en = &x->entries[n++];
            (void)map_put(&x->names, str_from(r->name), en);
        }
        size_t *slot = r->wildcard ? &en->below : &en->exact;
        *slot = *slot ? *slot : i + 1;
    }
    return p;
}

struct policy *policy_deny_all(void)
{
    return policy_seal(policy_new(0));
}

static int rules_decode(struct policy *p, const struct json *list, struct err *e)
{
    for (size_t i = 0; i < json_len(list); i++) {
        if (rule_decode(&p->rules[p->n_rules], json_item(list, i), e) < 0) {
            return err_wrap(e, "rule %zu", i);
        }
        p->n_rules++;
    }
    return 0;
}

struct policy *policy_parse(struct str text, struct err *e)
{
    text = str_trim_space(text);
    if (!text.n) {
        return policy_deny_all();
    }
    cleanup_(json_free) struct json *j = json_parse(text, e);
    if (!j) {
        return NULL;
    }
    if (json_is_null(j)) {
        return policy_deny_all();
    }
    if (!json_is_object(j)) {
        (void)err_set(e, ERR_INVALID, "a policy must be an object");
        return NULL;
    }
    struct json *list = get_nocase(j, STR("egress"));
    struct str fallback = STR_NULL;
    if (list && !json_is_null(list) && !json_is_array(list)) {
        (void)err_set(e, ERR_INVALID, "egress must be a list of rules");
        return NULL;
    }
    cleanup_(policy_free) struct policy *p = policy_new(json_is_array(list) ? json_len(list) : 0);
    if (text_of(get_nocase(j, STR("defaultAction")), "defaultAction", &fallback, e) < 0 ||
        action_parse(fallback, "defaultAction", &p->fallback, e) < 0 ||
        (json_is_array(list) && rules_decode(p, list, e) < 0)) {
        return NULL;
    }
    return policy_seal(take_ptr(&p));
}

static struct json *array_parse(struct str body, struct err *e)
{
    struct json *j = json_parse(body, e);
    if (j && (!json_is_array(j) || !json_len(j))) {
        json_free(j);
        (void)err_set(e, ERR_INVALID, "the body must be a JSON array with at least one entry");
        return NULL;
    }
    return j;
}

static void lower(const char *text, struct buf *out)
{
    buf_clear(out);
    for (; *text; text++) {
        (void)buf_add_char(out, (char)tolower((unsigned char)*text));
    }
}

struct policy *policy_patch(const struct policy *old, struct str body, struct err *e)
{
    cleanup_(json_free) struct json *j = array_parse(body, e);
    if (!j) {
        return NULL;
    }
    cleanup_(map_done) struct map seen = {0};
    cleanup_(buf_done) struct buf key = BUF_INIT(EGRESS_MAX_TARGET + 1);
    cleanup_(policy_free) struct policy *p = policy_new(json_len(j) + old->n_rules);
    p->fallback = old->fallback;
    for (size_t i = 0; i < json_len(j); i++) {
        struct policy_rule *r = &p->rules[p->n_rules];
        if (rule_decode(r, json_item(j, i), e) < 0) {
            (void)err_wrap(e, "rule %zu", i);
            return NULL;
        }
        p->n_rules++;
        lower(r->target, &key);
        if (map_put(&seen, buf_str(&key), p)) { /* said before: the first one counts */
            free(r->target);
            free(r->name);
            *r = (struct policy_rule){0};
            p->n_rules--;
        }
    }
    for (size_t i = 0; i < old->n_rules; i++) {
        lower(old->rules[i].target, &key);
        if (!map_get(&seen, buf_str(&key))) {
            rule_copy(&p->rules[p->n_rules++], &old->rules[i]);
        }
    }
    return policy_seal(take_ptr(&p));
}

struct policy *policy_without(const struct policy *old, struct str body, size_t *ret_removed,
                              struct err *e)
{
    cleanup_(json_free) struct json *j = array_parse(body, e);
    if (!j) {
        return NULL;
    }
    cleanup_(map_done) struct map gone = {0};
    cleanup_(buf_done) struct buf key = BUF_INIT(EGRESS_MAX_BODY);
    for (size_t i = 0; i < json_len(j); i++) {
        struct str target = json_str(json_item(j, i));
        target = str_trim_space(target);
        if (!target.n) {
            (void)err_set(e, ERR_INVALID, "target %zu must be a string that is not empty", i);
            return NULL;
        }
        cleanup_free char *copy = str_dup(target);
        lower(copy, &key);
        (void)map_put(&gone, buf_str(&key), &gone);
    }
    struct policy *p = policy_new(old->n_rules);
    p->fallback = old->fallback;
    for (size_t i = 0; i < old->n_rules; i++) {
        lower(old->rules[i].target, &key);
        if (!map_get(&gone, buf_str(&key))) {
            rule_copy(&p->rules[p->n_rules++], &old->rules[i]);
        }
    }
    *ret_removed = old->n_rules - p->n_rules;
    return policy_seal(p);
}

struct policy *policy_overlay(const struct policy *user, const struct policy *deny,
                              const struct policy *allow)
{
    const struct policy *all[] = {deny, allow, user};
    size_t total = 0;
    must(user);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        total += all[i] ? all[i]->n_rules : 0;
    }
    struct policy *p = policy_new(total);
    p->fallback = user->fallback;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        for (size_t k = 0; all[i] && k < all[i]->n_rules; k++) {
            rule_copy(&p->rules[p->n_rules++], &all[i]->rules[k]);
        }
    }
    return policy_seal(p);
}

struct policy *policy_parse_lines(struct str text, enum policy_action action, struct err *e)
{
    size_t lines = 1;
    for (size_t i = 0; i < text.n; i++) {
        lines += text.p[i] == '\n';
    }
    cleanup_(policy_free) struct policy *p = policy_new(lines);
    for (size_t no = 1; text.p; no++) {
        struct str line = str_trim_space(str_cut(&text, '\n'));
        if (!line.n || line.p[0] == '#') {
            continue;
        }
        if (rule_init(&p->rules[p->n_rules], action, line, e) < 0) {
            (void)err_wrap(e, "line %zu", no);
            return NULL;
        }
        p->n_rules++;
    }
    return policy_seal(take_ptr(&p));
}

/* ---- telling ---- */

const char *policy_mode(const struct policy *p)
{
    if (p->n_rules) {
        return "enforcing";
    }
    return p->fallback == POLICY_ALLOW ? "allow_all" : "deny_all";
}

static const char *action_name(enum policy_action a)
{
    return a == POLICY_ALLOW ? "allow" : "deny";
}

int policy_format(const struct policy *p, struct buf *out, int indent)
{
    cleanup_(json_free) struct json *j = json_object_new();
    struct json *list = json_array_new();
    for (size_t i = 0; i < p->n_rules; i++) {
        struct json *r = json_object_new();
        json_set(r, "action", json_string_new(str_from(action_name(p->rules[i].action))));
        json_set(r, "target", json_string_new(str_from(p->rules[i].target)));
        json_push(list, r);
    }
    json_set(j, "egress", list);
    json_set(j, "defaultAction", json_string_new(str_from(action_name(p->fallback))));
    return json_dump(j, out, indent);
}

/* ---- asking ---- */

const struct policy_rule *policy_find_name(const struct policy *p, struct str name)
{
    char low[DOMAIN_MAX + 1];
    size_t best = 0;
    if (name.n && name.p[name.n - 1] == '.') {
        name.n--;
    }
    if (name.n > DOMAIN_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < name.n; i++) {
        low[i] = (char)tolower((unsigned char)name.p[i]);
    }
    struct str rest = str_n(low, name.n);
    for (bool is_whole = true; rest.p; is_whole = false) {
        const struct index_entry *en = map_get(&p->index->names, rest);
        size_t hit = !en ? 0 : is_whole ? en->exact : en->below;
        if (hit && (!best || hit < best)) {
            best = hit;
        }
        (void)str_cut(&rest, '.');
    }
    return best ? &p->rules[best - 1] : NULL;
}

bool policy_allows_name(const struct policy *p, struct str name)
{
    if (name.n > DOMAIN_MAX + 1) {
        return false;
    }
    const struct policy_rule *r = policy_find_name(p, name);
    return (r ? r->action : p->fallback) == POLICY_ALLOW;
}

enum policy_verdict policy_check_ip(const struct policy *p, const struct ip *ip)
{
    enum policy_verdict v = POLICY_BY_DEFAULT;
    for (size_t i = 0; p->index->n_nets && i < p->n_rules; i++) {
        const struct policy_rule *r = &p->rules[i];
        if (r->kind == POLICY_NET && cidr_contains(&r->cidr, ip)) {
            if (r->action == POLICY_DENY) {
                return POLICY_DENIED;
            }
            v = POLICY_ALLOWED;
        }
    }
    return v;
}
