/* What a sandbox may reach, and an API key that the code inside uses without ever holding it.
 *
 *     cc policy.c $(pkg-config --cflags --libs opensandbox) -o policy
 *     OPEN_SANDBOX_DOMAIN=localhost:8080 OPEN_SANDBOX_API_KEY=... ./policy host
 */

#include <opensandbox.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(const char *what, const struct osb_error *e)
{
    fprintf(stderr, "%s: %s (%s)\n", what, e->message, osb_code_name(e->code));
    return 1;
}

/* Prints whether the policy speaks of a target. */
static int look(struct osb_sandbox *s, const char *when, const char *target)
{
    struct osb_error e = {0};
    char *policy = osb_egress_get(s, &e);
    if (!policy) {
        return complain("egress get", &e);
    }
    printf("%s: %s is %s\n", when, target, strstr(policy, target) ? "there" : "not there");
    free(policy);
    return 0;
}

static int change_policy(struct osb_sandbox *s)
{
    struct osb_error e = {0};
    const struct osb_rule more[] = {{"allow", "pkg.example"}, {"deny", "bad.example"}};
    const char *const gone[] = {"pkg.example", "never.example", NULL};
    const struct osb_rule wrong = {"allow", "not a name"};
    if (look(s, "created", "api.example") || osb_egress_patch(s, more, 2, &e) < 0) {
        return complain("egress patch", &e);
    }
    if (look(s, "patched", "pkg.example") || osb_egress_delete(s, gone, &e) < 0) {
        return complain("egress delete", &e);
    }
    if (look(s, "deleted", "pkg.example") || look(s, "deleted", "bad.example")) {
        return 1;
    }
    int r = osb_egress_patch(s, &wrong, 1, &e);
    printf("a wrong rule: %s\n", r < 0 ? osb_code_name(e.code) : "accepted");
    return 0;
}

static int use_vault(struct osb_sandbox *s)
{
    static const char create[] =
        "{\"credentials\":[{\"name\":\"key\",\"source\":{\"type\":\"inline\",\"value\":\"s3cret\"}}"
        "],"
        "\"bindings\":[{\"name\":\"api\",\"match\":{\"hosts\":[\"api.example\"]},"
        "\"auth\":{\"type\":\"bearer\",\"credential\":\"key\"}}]}";
    static const char patch[] =
        "{\"expectedRevision\":1,\"credentials\":{\"replace\":"
        "[{\"name\":\"key\",\"source\":{\"type\":\"inline\",\"value\":\"n3wer\"}}]}}";
    struct osb_error e = {0};
    char *state = osb_vault_create(s, create, &e);
    if (!state) {
        return complain("vault create", &e);
    }
    printf("the vault %s its secret\n", strstr(state, "s3cret") ? "shows" : "keeps");
    free(state);
    state = osb_vault_patch(s, patch, &e);
    if (!state) {
        return complain("vault patch", &e);
    }
    free(state);
    state = osb_vault_patch(s, patch, &e);
    printf("an old revision: %s\n", state ? "accepted" : osb_code_name(e.code));
    free(state);
    state = osb_vault_get(s, &e);
    if (!state) {
        return complain("vault get", &e);
    }
    printf("revision 2: %s\n", strstr(state, "\"revision\":2") ? "yes" : "no");
    free(state);
    if (osb_vault_delete(s, &e) < 0) {
        return complain("vault delete", &e);
    }
    state = osb_vault_get(s, &e);
    printf("deleted: %s\n", state ? "still there" : osb_code_name(e.code));
    free(state);
    return 0;
}

int main(int argc, char **argv)
{
    struct osb_error e = {0};
    const struct osb_rule first = {"allow", "api.example"};
    struct osb_client *c = osb_client_new(NULL, &e);
    if (!c) {
        return complain("connect", &e);
    }
    struct osb_create_opts o = {.image = argc > 1 ? argv[1] : "python:3.12",
                                .timeout_seconds = 300,
                                .egress_default = "deny",
                                .egress_rules = &first,
                                .n_egress_rules = 1,
                                .credential_proxy = true};
    struct osb_sandbox *s = osb_create(c, &o, &e);
    int r = 1;
    if (s) {
        r = change_policy(s) || use_vault(s);
        osb_kill(s, &e);
    } else {
        complain("create", &e);
    }
    osb_sandbox_free(s);
    osb_client_free(c);
    return r;
}
