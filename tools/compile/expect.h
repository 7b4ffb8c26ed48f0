/* expect.h: the comments `// expected-error @+1 {{text}}` of an IR text and the reported diagnostics in; whether they
 * agree out. */
#ifndef MSC_TOOLS_EXPECT_H
#define MSC_TOOLS_EXPECT_H

#include "tools/cli.h"

/* Compares the context's diagnostics with the comments and replaces them by an error per difference; true: there are
 * none.
 *
 *   // expected-error {{text}}        error, warning, note or remark; on this line; its text or [E0102] contains `text`
 *   // expected-error @+1 {{text}}    so many lines below; @-1 above
 *   // expected-error @below {{text}} on the next line that has no such comment; @above: the one before
 *   // expected-error @unknown {{t}}  at no place of this file
 *
 * Every error and warning must be expected; notes and remarks need not be. */
bool expect_reported(cli *c, const char *path, const char *text, size_t bytes);

#endif
