/* sanitized.h: whether this build has the address sanitizer. Kernels then check their accesses, and run on memory that
 * is guarded. */
#ifndef MSC_IR_SANITIZED_H
#define MSC_IR_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__)
enum { MSC_SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { MSC_SANITIZED = 1 };
#else
enum { MSC_SANITIZED = 0 };
#endif
#else
enum { MSC_SANITIZED = 0 };
#endif

#endif
