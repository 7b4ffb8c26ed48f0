/* mailbox.h: how large a mailbox is, through which messages go from rank to rank: two counters in lines of their own,
 * then `depth` messages in whole lines.  The compiler plans its memory, the runtime takes it. */
#ifndef MSC_IR_MAILBOX_H
#define MSC_IR_MAILBOX_H

#include <stdint.h>

enum { MSC_MAILBOX_LINE = 64, MSC_MAILBOX_COUNTERS = 2 * MSC_MAILBOX_LINE }; /* bytes */

static inline uint64_t msc_mailbox_slot_bytes(uint64_t message_bytes) {
  return (message_bytes + MSC_MAILBOX_LINE - 1) / MSC_MAILBOX_LINE * MSC_MAILBOX_LINE;
}

static inline uint64_t msc_mailbox_bytes(uint64_t message_bytes, uint32_t depth) {
  return MSC_MAILBOX_COUNTERS + depth * msc_mailbox_slot_bytes(message_bytes);
}

#endif
