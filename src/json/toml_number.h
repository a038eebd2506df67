#pragma once
/* Inside the json room only: TOML's numbers and dates. */

#include "json/json.h"

/* The value of a whole token, or NULL and the reason. */
struct json *toml_number_or_date(struct str token, const char **ret_why);
