/* path_fault.h: an error of writing a file in; out: whether it is due to the path that the user gave, so that another
 * try would fail, too, or to the machine, such as a disk that is full or has become read-only. msc exits with 1 in the
 * first case, with 3 in the second. */
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
