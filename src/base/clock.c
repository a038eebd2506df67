/* Clocks, and the two date formats of the protocol. Calendar arithmetic is done here: no time zone
 * database, no locale. */

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/must.h"

static int64_t clock_us(clockid_t id)
{
    struct timespec ts;
    must(clock_gettime(id, &ts) == 0);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_wall_us(void)
{
    return clock_us(CLOCK_REALTIME);
}

int64_t clock_wall_ms(void)
{
    return clock_wall_us() / 1000;
}

uint64_t clock_mono_us(void)
{
    return (uint64_t)clock_us(CLOCK_MONOTONIC);
}

uint64_t clock_mono_ms(void)
{
    return clock_mono_us() / 1000;
}

struct civil {
    int64_t year;
    int month, day, hour, min, sec;
    int weekday; /* 0: Sunday */
};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Days since 1970-01-01 in the proleptic Gregorian calendar. Years are counted from March, so that
 * the leap day is the last of its year; 146097 days are 400 years. */
static int64_t days_from_civil(int64_t y, int m, int d)
{
    y -= m <= 2;
    int64_t era = floor_div(y, 400);
    int64_t yoe = y - era * 400;
    int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static struct civil civil_from_seconds(int64_t s)
{
    int64_t days = floor_div(s, 86400);
    int rest = (int)(s - days * 86400);
    int64_t z = days + 719468;
    int64_t era = floor_div(z, 146097);
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int mp = (int)((5 * doy + 2) / 153);
    struct civil c = {
        .month = mp < 10 ? mp + 3 : mp - 9,
        .day = (int)(doy - (153 * mp + 2) / 5 + 1),
        .hour = rest / 3600,
        .min = rest / 60 % 60,
        .sec = rest % 60,
        .weekday = (int)((days % 7 + 11) % 7),
    };
    c.year = yoe + era * 400 + (c.month <= 2);
    return c;
}

static bool civil_valid(const struct civil *c)
{
    static const int month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (c->month < 1 || c->month > 12 || c->day < 1) {
        return false;
    }
    bool leap = (c->year % 4 == 0 && c->year % 100 != 0) || c->year % 400 == 0;
    int last = month_days[c->month - 1] + (c->month == 2 && leap);
    return c->day <= last && c->hour <= 23 && c->min <= 59 && c->sec <= 60;
}

static int64_t civil_seconds(const struct civil *c)
{
    return days_from_civil(c->year, c->month, c->day) * 86400 + c->hour * 3600 + c->min * 60 +
           c->sec;
}

/* Years outside 0..9999 have no four-digit form: clamped, never overflowing the caller's array. */
static int64_t clamp_year(int64_t s)
{
    return MAX(MIN(s, 253402300799), -62167219200);
}

void rfc3339_format(int64_t wall_us, int fraction_digits, char out[RFC3339_MAX])
{
    int64_t s = floor_div(wall_us, 1000000);
    unsigned us = (unsigned)(wall_us - s * 1000000);
    struct civil c = civil_from_seconds(clamp_year(s));
    int n = snprintf(out, RFC3339_MAX, "%04d-%02d-%02dT%02d:%02d:%02d", (int)c.year, c.month, c.day,
                     c.hour, c.min, c.sec);
    must(n > 0 && n < RFC3339_MAX - 9);
    size_t room = (size_t)(RFC3339_MAX - n);
    if (fraction_digits == 6) {
        (void)snprintf(out + n, room, ".%06uZ", us);
    } else if (fraction_digits == 3) {
        (void)snprintf(out + n, room, ".%03uZ", us / 1000);
    } else {
        (void)snprintf(out + n, room, "Z");
    }
}

/* Exactly n digits from the front of *s. */
static bool take_digits(struct str *s, size_t n, int *ret)
{
    if (s->n < n) {
        return false;
    }
    int v = 0;
    for (size_t i = 0; i < n; i++) {
        if (s->p[i] < '0' || s->p[i] > '9') {
            return false;
        }
        v = v * 10 + (s->p[i] - '0');
    }
    *s = str_sub(*s, n, s->n);
    *ret = v;
    return true;
}

/* One byte out of `any`. */
static bool take_char(struct str *s, const char *any)
{
    if (s->n == 0 || s->p[0] == 0 || !strchr(any, s->p[0])) {
        return false;
    }
    *s = str_sub(*s, 1, s->n);
    return true;
}

static bool take_clock(struct str *s, struct civil *c)
{
    return take_digits(s, 2, &c->hour) && take_char(s, ":") && take_digits(s, 2, &c->min) &&
           take_char(s, ":") && take_digits(s, 2, &c->sec);
}

/* Digits behind the point; what is finer than a microsecond is cut off. */
static bool take_fraction(struct str *s, int *ret_us)
{
    int us = 0;
    size_t n = 0;
    while (n < s->n && s->p[n] >= '0' && s->p[n] <= '9') {
        if (n < 6) {
            us = us * 10 + (s->p[n] - '0');
        }
        n++;
    }
    for (size_t i = n; i < 6; i++) {
        us *= 10;
    }
    *s = str_sub(*s, n, s->n);
    *ret_us = us;
    return n > 0;
}

static bool take_offset(struct str *s, int *ret_s)
{
    int hours, mins;
    bool negative = s->n && s->p[0] == '-';
    if (!take_char(s, "+-") || !take_digits(s, 2, &hours) || !take_char(s, ":") ||
        !take_digits(s, 2, &mins) || hours > 23 || mins > 59) {
        return false;
    }
    *ret_s = (hours * 3600 + mins * 60) * (negative ? -1 : 1);
    return true;
}

int rfc3339_parse(struct str s, int64_t *ret_wall_us)
{
    struct civil c = {0};
    int year;
    if (!take_digits(&s, 4, &year) || !take_char(&s, "-") || !take_digits(&s, 2, &c.month) ||
        !take_char(&s, "-") || !take_digits(&s, 2, &c.day) || !take_char(&s, "Tt") ||
        !take_clock(&s, &c)) {
        return -EINVAL;
    }
    c.year = year;
    int us = 0;
    int offset = 0;
    if (!civil_valid(&c) || (take_char(&s, ".") && !take_fraction(&s, &us))) {
        return -EINVAL;
    }
    if (s.n && !take_char(&s, "Zz") && !take_offset(&s, &offset)) {
        return -EINVAL;
    }
    if (s.n) {
        return -EINVAL;
    }
    *ret_wall_us = (civil_seconds(&c) - offset) * 1000000 + us;
    return 0;
}

static const char day_names[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

void http_date_format(int64_t wall_s, char out[HTTP_DATE_LEN + 1])
{
    struct civil c = civil_from_seconds(clamp_year(wall_s));
    int n = snprintf(out, HTTP_DATE_LEN + 1, "%s, %02d %s %04d %02d:%02d:%02d GMT",
                     day_names[c.weekday], c.day, month_names[c.month - 1], (int)c.year, c.hour,
                     c.min, c.sec);
    must(n == HTTP_DATE_LEN);
}

int http_date_parse(struct str s, int64_t *ret_wall_s)
{
    struct civil c = {0};
    int year;
    if (s.n != HTTP_DATE_LEN || s.p[3] != ',' || s.p[4] != ' ') {
        return -EINVAL;
    }
    struct str day_name = str_sub(s, 0, 3);
    s = str_sub(s, 5, s.n);
    if (!take_digits(&s, 2, &c.day) || !take_char(&s, " ")) {
        return -EINVAL;
    }
    for (int m = 0; m < 12; m++) {
        if (str_starts(s, str_from(month_names[m]))) {
            c.month = m + 1;
        }
    }
    s = str_sub(s, 3, s.n);
    if (!take_char(&s, " ") || !take_digits(&s, 4, &year) || !take_char(&s, " ") ||
        !take_clock(&s, &c) || !str_eq(s, STR(" GMT"))) {
        return -EINVAL;
    }
    c.year = year;
    if (!civil_valid(&c)) {
        return -EINVAL;
    }
    int64_t seconds = civil_seconds(&c);
    struct civil back = civil_from_seconds(seconds - (c.sec == 60));
    if (!str_eq(day_name, str_from(day_names[back.weekday]))) {
        return -EINVAL;
    }
    *ret_wall_s = seconds;
    return 0;
}
