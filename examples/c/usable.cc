// The header from C++.
#include <opensandbox.h>

#include <cstdio>

int main()
{
    osb_error e{};
    osb_config cfg{};
    cfg.domain = "not an address";
    osb_client *c = osb_client_new(&cfg, &e);
    std::printf("%s %s %d\n", osb_version(), osb_code_name(e.code), c == nullptr);
    return c == nullptr ? 0 : 1;
}
