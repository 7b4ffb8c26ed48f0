/* fresh.h: gives every test of a file a new context. */
#ifndef MSC_TESTS_FRESH_H
#define MSC_TESTS_FRESH_H

#include "ir/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static msc_context *ctx;
static const msc_loc here = {.file = "test"};

static int fresh(void **state) {
  (void)state;
  ctx = msc_context_new(NULL, NULL);
  return 0;
}

static int done(void **state) {
  (void)state;
  msc_context_free(ctx);
  return 0;
}

#endif
