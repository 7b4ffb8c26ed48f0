/* ucx.c: what runtime/comm/ucx.h declares of UCX in; compared with UCX's own headers, where they are installed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "runtime/comm/ucx.h"

#if __has_include(<ucp/api/ucp.h>)
#include <ucp/api/ucp.h>

#define SAME_PLACE(own, theirs, member) \
  _Static_assert(offsetof(own, member) == offsetof(theirs, member), #theirs "." #member)
#define HAS_ROOM(own, theirs) _Static_assert(sizeof(own) >= sizeof(theirs), #theirs)

SAME_PLACE(mscrt_ucp_params, ucp_params_t, field_mask);
SAME_PLACE(mscrt_ucp_params, ucp_params_t, features);
SAME_PLACE(mscrt_ucp_params, ucp_params_t, estimated_num_eps);
SAME_PLACE(mscrt_ucp_worker_params, ucp_worker_params_t, thread_mode);
SAME_PLACE(mscrt_ucp_ep_params, ucp_ep_params_t, address);
SAME_PLACE(mscrt_ucp_request_param, ucp_request_param_t, op_attr_mask);
SAME_PLACE(mscrt_ucp_request_param, ucp_request_param_t, flags);
HAS_ROOM(mscrt_ucp_params, ucp_params_t);
HAS_ROOM(mscrt_ucp_worker_params, ucp_worker_params_t);
HAS_ROOM(mscrt_ucp_ep_params, ucp_ep_params_t);
HAS_ROOM(mscrt_ucp_request_param, ucp_request_param_t);

static void constants(void **state) {
  (void)state;
  assert_int_equal(MSCRT_UCS_INPROGRESS, UCS_INPROGRESS);
  assert_int_equal(MSCRT_UCS_THREAD_SERIALIZED, UCS_THREAD_MODE_SERIALIZED);
  assert_int_equal(MSCRT_UCP_PARAM_FEATURES, UCP_PARAM_FIELD_FEATURES);
  assert_int_equal(MSCRT_UCP_PARAM_NUM_EPS, UCP_PARAM_FIELD_ESTIMATED_NUM_EPS);
  assert_int_equal(MSCRT_UCP_TAG, UCP_FEATURE_TAG);
  assert_int_equal(MSCRT_UCP_WAKEUP, UCP_FEATURE_WAKEUP);
  assert_int_equal(MSCRT_UCP_WORKER_THREAD_MODE, UCP_WORKER_PARAM_FIELD_THREAD_MODE);
  assert_int_equal(MSCRT_UCP_EP_REMOTE_ADDRESS, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
  assert_int_equal(MSCRT_UCP_OP_FLAGS, UCP_OP_ATTR_FIELD_FLAGS);
  assert_int_equal(MSCRT_UCP_EP_CLOSE_FORCE, UCP_EP_CLOSE_FLAG_FORCE);
}
#else
static void constants(void **state) {
  (void)state;
  print_message("skipped: the headers of UCX are not installed\n");
}
#endif

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(constants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
