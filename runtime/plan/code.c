/* code.c: the native code of a plan in; the same code in executable pages out. Pages are never writable and executable
 * at once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/plan/plan.h"

static size_t round_up_to_pages(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

/* Maps code with its constants, which follow it in the same mapping since code reaches them relative to itself. */
mscrt_status *mscrt_map_code(const uint8_t *code, size_t bytes, size_t text_bytes, uint8_t **out_code) {
  size_t all = round_up_to_pages(bytes), text = round_up_to_pages(text_bytes);
  uint8_t *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return mscrt_fail(MSCRT_NO_MEMORY, "no memory for %zu bytes of code: %s", bytes, strerror(errno));
  memcpy(p, code, bytes);
  if (mprotect(p, text, PROT_READ | PROT_EXEC) != 0 || (all > text && mprotect(p + text, all - text, PROT_READ) != 0)) {
    int error = errno;
    munmap(p, all);
    return mscrt_fail(MSCRT_ENVIRONMENT, "the system does not allow to execute code from memory: %s", strerror(error));
  }
  *out_code = p;
  return NULL;
}

void mscrt_unmap_code(uint8_t *code, size_t bytes) {
  if (code) munmap(code, round_up_to_pages(bytes));
}

mscrt_status *mscrt_write_perf_map(const mscrt_plan *p) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  FILE *f = fd >= 0 ? fdopen(fd, "a") : NULL;
  if (!f) {
    if (fd >= 0) close(fd);
    return mscrt_fail(MSCRT_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
  }
  for (uint32_t i = 0; i < plan_plan_kernels_num(p->root); i++) {
    plan_kernel k = plan_plan_kernels(p->root, i);
    if (plan_kernel_builtin(k) || plan_kernel_threads(k)) continue; /* built in: it has a name already; of a GPU */
    fprintf(f, "%" PRIxPTR " %" PRIx64 " %s\n", (uintptr_t)p->code + (uintptr_t)plan_kernel_entry(k),
            plan_kernel_bytes(k), plan_kernel_name(k));
  }
  return fclose(f) == 0 ? NULL : mscrt_fail(MSCRT_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
}
