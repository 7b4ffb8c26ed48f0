/* hlo_text.h: the text of a StableHLO module in; its words, types, locations and values of attributes out, one after
 * another.  The take functions report a fault at its place and return false or NULL. */
#ifndef MSC_IR_STABLEHLO_HLO_TEXT_H
#define MSC_IR_STABLEHLO_HLO_TEXT_H

#include "ir/stablehlo/hlo.h"
#include "ir/table.h"

typedef struct {
  const char *name;
  const char *at; /* behind "loc(" */
} named_loc;

typedef struct {
  msc_context *ctx;
  msc_arena *arena;
  const char *file, *text, *end, *p;
  const char *line_at; /* where `line` begins */
  uint32_t line;
  int depth;
  size_t num_ops;
  MSC_TABLE(named_loc) named; /* #loc3 = loc(...) */
  int loc_steps;              /* locations that have been followed from the present one */
} hlo_text;

const msc_loc *hlo_here(hlo_text *r);
/* Reports that `what` is expected, and what stands here instead; returns false. */
bool hlo_fault(hlo_text *r, const char *what);
void hlo_skip_space(hlo_text *r);
/* True if `what` is next. If it ends with a letter, the word in the text must end there, too. */
bool hlo_see(hlo_text *r, const char *what);
bool hlo_take_if(hlo_text *r, const char *what);
bool hlo_expect(hlo_text *r, const char *what);
const char *hlo_expect_word(hlo_text *r, const char *what);
/* Reads the quoted text that begins here; returns it without escapes. */
const char *hlo_take_text(hlo_text *r);
const msc_type *hlo_take_type(hlo_text *r);
bool hlo_take_value(hlo_text *r, hlo_value *out);
/* Reads members NAME = VALUE, or NAME alone, up to and including `close`. */
bool hlo_take_members(hlo_text *r, const char *close, size_t *num, hlo_value **member);
/* Finds all #loc3 = loc(...), which stand in front of the module and behind it. */
void hlo_note_locs(hlo_text *r);
/* Reads loc(...) if it is next: *out is its file and line, if it has any; *out_said the first text in it that is no
 * file. */
bool hlo_take_loc(hlo_text *r, const msc_loc **out, const char **out_said);

#endif
