/* ucx.h: the beginnings of UCX's structs, and its constants, as far as they are used; all versions from 1.11 on have
 * them so. */
#ifndef MSCRT_COMM_UCX_H
#define MSCRT_COMM_UCX_H

#include "runtime/comm/fabric.h"

enum {
  MSCRT_UCS_INPROGRESS = 1,
  MSCRT_UCS_THREAD_SERIALIZED = 1,
  MSCRT_UCP_PARAM_FEATURES = 1 << 0,
  MSCRT_UCP_PARAM_NUM_EPS = 1 << 6,
  MSCRT_UCP_TAG = 1 << 0,
  MSCRT_UCP_WAKEUP = 1 << 4,
  MSCRT_UCP_WORKER_THREAD_MODE = 1 << 0,
  MSCRT_UCP_EP_REMOTE_ADDRESS = 1 << 0,
  MSCRT_UCP_OP_FLAGS = 1 << 4,
  MSCRT_UCP_EP_CLOSE_FORCE = 1 << 0
};

typedef struct {
  uint64_t field_mask, features;
  size_t request_size;
  void *request_init, *request_cleanup;
  uint64_t tag_sender_mask;
  int mt_workers_shared;
  size_t estimated_num_eps;
  char rest[256];
} mscrt_ucp_params;

typedef struct {
  uint64_t field_mask;
  int thread_mode;
  char rest[500];
} mscrt_ucp_worker_params;

typedef struct {
  uint64_t field_mask;
  const void *address;
  char rest[256];
} mscrt_ucp_ep_params;

typedef struct {
  uint32_t op_attr_mask, flags;
  char rest[256];
} mscrt_ucp_request_param;

#endif
