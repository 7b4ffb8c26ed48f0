/* trust.h: which plans this user compiled on this host.  plan.bin holds native code; nothing about trust is in it. */
#ifndef MSC_TOOLS_TRUST_H
#define MSC_TOOLS_TRUST_H

#include <stdbool.h>
#include <stddef.h>

/* Notes the plan's SHA-256 in the user's cache folder.  Without such a folder nothing is noted and `msc run` asks. */
void trust_note(const void *plan, size_t bytes);
bool trust_known(const void *plan, size_t bytes);

/* A folder of the user's cache that nobody else can write to; false: there is none. */
bool trust_folder(const char *name, bool make, char out[4096]);

#endif
