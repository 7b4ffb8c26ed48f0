/* expect.h: fails a cmocka test if a status is not the expected one. */
#ifndef MSC_TESTS_EXPECT_H
#define MSC_TESTS_EXPECT_H

#include <string.h>

#include "runtime/runtime.h"

static inline void expect_text(mscrt_status *s, mscrt_code code, const char *part) {
  if (!s || mscrt_status_code(s) != code || !strstr(mscrt_status_text(s), part))
    fail_msg("got '%s' (%d), expected '%s'", mscrt_status_text(s), mscrt_status_code(s), part);
  mscrt_status_free(s);
}

static inline void expect_ok(mscrt_status *s) {
  if (s) fail_msg("%s\n%s", mscrt_status_text(s), mscrt_status_trail(s));
}

#endif
