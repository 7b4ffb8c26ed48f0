/* path_fault.h: whether a file cannot be written because of the path that the user gave, so that another try would fail
 * as this one did, or because of the machine, as with a disk that is full or has become read-only.  The first ends msc
 * with 1, the second with 3. */
#ifndef MSC_IR_ABI_PATH_FAULT_H
#define MSC_IR_ABI_PATH_FAULT_H

#include <errno.h>
#include <stdbool.h>

/* True if `error`, a value of errno, is a fault of the path. */
static inline bool msc_is_path_fault(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EEXIST:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG:
    case EINVAL:
    case ETXTBSY: return true;
    default: return false;
  }
}

#endif
