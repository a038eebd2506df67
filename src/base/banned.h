#pragma once
/* Functions that are a mistake in this code base become compile errors. The build includes this
 * file in front of every source; tools/check_style.py looks for the rest. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BANNED_(fn) banned_function_##fn

#undef strcpy
#define strcpy(...) BANNED_(strcpy)
#undef strcat
#define strcat(...) BANNED_(strcat)
#undef strncpy
#define strncpy(...) BANNED_(strncpy)
#undef strncat
#define strncat(...) BANNED_(strncat)
#undef sprintf
#define sprintf(...) BANNED_(sprintf)
#undef vsprintf
#define vsprintf(...) BANNED_(vsprintf)
#undef strtok
#define strtok(...) BANNED_(strtok)
#undef atoi
#define atoi(...) BANNED_(atoi)
#undef atol
#define atol(...) BANNED_(atol)
#undef atoll
#define atoll(...) BANNED_(atoll)
#undef gmtime
#define gmtime(...) BANNED_(gmtime)
#undef localtime
#define localtime(...) BANNED_(localtime)
#undef ctime
#define ctime(...) BANNED_(ctime)
#undef popen
#define popen(...) BANNED_(popen)
#undef alloca
#define alloca(...) BANNED_(alloca)
