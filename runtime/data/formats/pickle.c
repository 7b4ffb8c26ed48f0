/* pickle.c: the bytes of a pickle in; its values, as data, out. */
#include "runtime/data/formats/pickle.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)64 << 10)
#define MAX_MEMO    (1u << 24)

/* ---- memory: blocks that end together ---- */

typedef struct block {
  struct block *next;
  size_t used, bytes;
  max_align_t data[];
} block;

typedef struct {
  const mscrt_blob *b;
  const uint8_t *start, *at, *end;
  block *blocks;
  uint32_t num_stack, num_memo, num_marks;
  int64_t room_stack, room_memo, room_marks;
  mscrt_py **stack, **memo;
  uint32_t *mark; /* heights of the stack */
} unpickler;

static void *take_memory(unpickler *u, size_t bytes) {
  bytes = (bytes + 15) / 16 * 16;
  if (!u->blocks || u->blocks->bytes - u->blocks->used < bytes) {
    size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    block *b = malloc(sizeof *b + room);
    if (!b) return NULL;
    *b = (block){.next = u->blocks, .bytes = room};
    u->blocks = b;
  }
  void *memory = (char *)u->blocks->data + u->blocks->used;
  u->blocks->used += bytes;
  return memset(memory, 0, bytes);
}

#define no_memory(u)        mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory", (u)->b->path)
#define bad_pickle(u, what) mscrt_bad_file((u)->b, "pickle: %s at byte %td", (what), (u)->at - (u)->start)

/* ---- the stack ---- */

static mscrt_status *push_value(unpickler *u, mscrt_py *v) {
  MSCRT_CHECK(mscrt_grow(&u->stack, u->num_stack, &u->room_stack, sizeof *u->stack));
  u->stack[u->num_stack++] = v;
  return NULL;
}

static mscrt_status *push_new(unpickler *u, mscrt_py v) {
  mscrt_py *new = take_memory(u, sizeof *new);
  if (!new) return no_memory(u);
  *new = v;
  return push_value(u, new);
}

/* Pops a value; those below the last mark stay. */
static mscrt_py *pop_value(unpickler *u) {
  uint32_t bottom = u->num_marks ? u->mark[u->num_marks - 1] : 0;
  return u->num_stack > bottom ? u->stack[--u->num_stack] : NULL;
}

static mscrt_py *top_value(const unpickler *u) {
  uint32_t bottom = u->num_marks ? u->mark[u->num_marks - 1] : 0;
  return u->num_stack > bottom ? u->stack[u->num_stack - 1] : NULL;
}

/* Takes the values above the last mark; *out is valid until the next push. */
static bool pop_mark(unpickler *u, mscrt_py ***out, uint32_t *out_num) {
  if (!u->num_marks) return false;
  uint32_t at = u->mark[--u->num_marks];
  *out = u->num_stack ? u->stack + at : NULL;
  *out_num = u->num_stack - at;
  u->num_stack = at;
  return true;
}

static mscrt_status *add_items(unpickler *u, mscrt_py *to, mscrt_py *const *item, uint32_t num) {
  if (num > UINT32_MAX / 4 - to->num) return bad_pickle(u, "too many items");
  if (to->num + num > to->room) {
    uint32_t room = 2 * (to->num + num);
    mscrt_py **grown = take_memory(u, room * sizeof *grown);
    if (!grown) return no_memory(u);
    if (to->num) memcpy(grown, to->item, to->num * sizeof *grown);
    to->item = grown;
    to->room = room;
  }
  if (num) memcpy(to->item + to->num, item, num * sizeof *item);
  to->num += num;
  return NULL;
}

static mscrt_status *push_items(unpickler *u, mscrt_py_kind kind, mscrt_py *const *item, uint32_t num) {
  mscrt_py *v = take_memory(u, sizeof *v);
  if (!v) return no_memory(u);
  v->kind = kind;
  if (kind == MSCRT_PY_DICT && num % 2) return bad_pickle(u, "a key without a value");
  MSCRT_CHECK(add_items(u, v, item, num));
  return push_value(u, v);
}

/* ---- pieces of the text ---- */

static bool take_bytes(unpickler *u, size_t num, const uint8_t **out) {
  if ((size_t)(u->end - u->at) < num) return false;
  *out = u->at;
  u->at += num;
  return true;
}

static bool take_integer(unpickler *u, int bytes, uint64_t *out) {
  const uint8_t *p;
  *out = 0;
  if (!take_bytes(u, (size_t)bytes, &p)) return false;
  for (int i = 0; i < bytes; i++) *out |= (uint64_t)p[i] << 8 * i;
  return true;
}

/* Pushes a text, terminated by NUL. What stands behind a NUL inside of it is lost, so such names match no other. */
static mscrt_status *push_text(unpickler *u, int length_bytes) {
  uint64_t num;
  const uint8_t *p;
  if (!take_integer(u, length_bytes, &num) || num > SIZE_MAX / 2 || !take_bytes(u, (size_t)num, &p))
    return bad_pickle(u, "a text leaves the pickle");
  char *text = take_memory(u, (size_t)num + 1);
  if (!text) return no_memory(u);
  memcpy(text, p, (size_t)num);
  return push_new(u, (mscrt_py){.kind = MSCRT_PY_TEXT, .text = text});
}

static mscrt_status *push_long(unpickler *u) {
  uint64_t bytes, v;
  if (!take_integer(u, 1, &bytes) || bytes > 8 || !take_integer(u, (int)bytes, &v))
    return bad_pickle(u, "a long number");
  if (bytes && bytes < 8 && v >> (8 * bytes - 1)) v |= ~UINT64_C(0) << 8 * bytes;
  return push_new(u, (mscrt_py){.kind = MSCRT_PY_INT, .number = (int64_t)v});
}

/* ---- names ---- */

/* Is the module one of those that files of tensors name? */
static bool is_allowed(const char *module) {
  static const char *const allowed[] = {"torch",   "collections", "argparse", "megatron", "numpy",
                                        "_codecs", "pathlib",     "signal",   "_io"};
  size_t n = strcspn(module, ".");
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
    if (strlen(allowed[i]) == n && !strncmp(module, allowed[i], n)) return true;
  return false;
}

static mscrt_status *push_global(unpickler *u, const char *module, size_t module_bytes, const char *name,
                                 size_t name_bytes) {
  char clean[128];
  char *text = take_memory(u, module_bytes + name_bytes + 2);
  if (!text) return no_memory(u);
  memcpy(text, module, module_bytes);
  bool allowed = is_allowed(text);
  text[module_bytes] = '.';
  memcpy(text + module_bytes + 1, name, name_bytes);
  if (!allowed)
    return mscrt_bad_file(u->b, "pickle: it names '%s', which has nothing to do with tensors",
                          mscrt_clean_text(text, SIZE_MAX, clean, sizeof clean));
  return push_new(u, (mscrt_py){.kind = MSCRT_PY_GLOBAL, .text = text});
}

/* Pushes the name of a global: two lines, module and name. */
static mscrt_status *push_global_lines(unpickler *u) {
  const uint8_t *module = u->at, *middle = memchr(u->at, '\n', (size_t)(u->end - u->at));
  const uint8_t *last = middle ? memchr(middle + 1, '\n', (size_t)(u->end - middle - 1)) : NULL;
  if (!last) return bad_pickle(u, "a name leaves the pickle");
  u->at = last + 1;
  return push_global(u, (const char *)module, (size_t)(middle - module), (const char *)middle + 1,
                     (size_t)(last - middle - 1));
}

static mscrt_status *push_global_stack(unpickler *u) {
  const mscrt_py *name = pop_value(u), *module = pop_value(u);
  if (!module || module->kind != MSCRT_PY_TEXT || name->kind != MSCRT_PY_TEXT)
    return bad_pickle(u, "a name is no text");
  return push_global(u, module->text, strlen(module->text), name->text, strlen(name->text));
}

/* ---- objects ---- */

static mscrt_status *push_object(unpickler *u) {
  mscrt_py *args = pop_value(u), *of = pop_value(u);
  if (!of || of->kind != MSCRT_PY_GLOBAL || args->kind != MSCRT_PY_TUPLE)
    return bad_pickle(u, "what is made has no name");
  return push_new(u, (mscrt_py){.kind = MSCRT_PY_OBJECT, .of = of, .args = args});
}

static mscrt_status *build_object(unpickler *u) {
  mscrt_py *state = pop_value(u), *object = top_value(u);
  if (!object || object->kind != MSCRT_PY_OBJECT) return bad_pickle(u, "state for what is no object");
  object->state = state;
  return NULL;
}

static mscrt_status *put_items(unpickler *u, bool pairs, bool many) {
  mscrt_py *two[2], **item = two;
  uint32_t num = pairs ? 2 : 1;
  if (many) {
    if (!pop_mark(u, &item, &num)) return bad_pickle(u, "no mark");
  } else {
    for (uint32_t i = num; i-- > 0;)
      if (!(two[i] = pop_value(u))) return bad_pickle(u, "an empty stack");
  }
  mscrt_py *to = top_value(u);
  bool fits = to && (to->kind == MSCRT_PY_OBJECT || to->kind == (pairs ? MSCRT_PY_DICT : MSCRT_PY_LIST));
  if (!fits || (pairs && num % 2)) return bad_pickle(u, "items for what has none");
  return add_items(u, to, item, num);
}

/* ---- the memo ---- */

static mscrt_status *remember(unpickler *u, uint64_t at) {
  mscrt_py *v = top_value(u);
  if (!v || at > u->num_memo || at >= MAX_MEMO) return bad_pickle(u, "a memo that is not the next");
  if (at == u->num_memo) {
    MSCRT_CHECK(mscrt_grow(&u->memo, u->num_memo, &u->room_memo, sizeof *u->memo));
    u->num_memo++;
  }
  u->memo[at] = v;
  return NULL;
}

static mscrt_status *recall(unpickler *u, uint64_t at) {
  return at < u->num_memo ? push_value(u, u->memo[at]) : bad_pickle(u, "a memo that is not there");
}

/* ---- one instruction ---- */

static mscrt_status *push_tuple(unpickler *u, uint32_t num) {
  mscrt_py *item[3];
  for (uint32_t i = num; i-- > 0;)
    if (!(item[i] = pop_value(u))) return bad_pickle(u, "an empty stack");
  return push_items(u, MSCRT_PY_TUPLE, item, num);
}

static mscrt_status *push_marked(unpickler *u, mscrt_py_kind kind) {
  mscrt_py **item;
  uint32_t num;
  return pop_mark(u, &item, &num) ? push_items(u, kind, item, num) : bad_pickle(u, "no mark");
}

static mscrt_status *push_int(unpickler *u, int bytes) {
  uint64_t v;
  if (!take_integer(u, bytes, &v)) return bad_pickle(u, "a number leaves the pickle");
  return push_new(u, (mscrt_py){.kind = MSCRT_PY_INT, .number = bytes == 4 ? (int32_t)(uint32_t)v : (int64_t)v});
}

static mscrt_status *use_memo(unpickler *u, int bytes, mscrt_status *(*use)(unpickler *u, uint64_t at)) {
  uint64_t at;
  return take_integer(u, bytes, &at) ? use(u, at) : bad_pickle(u, "a number leaves the pickle");
}

static mscrt_status *skip_bytes(unpickler *u, size_t bytes, const char *what) {
  const uint8_t *p;
  return take_bytes(u, bytes, &p) ? NULL : bad_pickle(u, what);
}

static mscrt_status *push_persistent(unpickler *u) {
  mscrt_py *args = pop_value(u);
  return args ? push_new(u, (mscrt_py){.kind = MSCRT_PY_PERSISTENT, .args = args}) : bad_pickle(u, "an empty stack");
}

static mscrt_status *push_mark(unpickler *u) {
  MSCRT_CHECK(mscrt_grow(&u->mark, u->num_marks, &u->room_marks, sizeof *u->mark));
  u->mark[u->num_marks++] = u->num_stack;
  return NULL;
}

/* Executes an instruction, by its number in Python's pickletools; texts of bytes become texts. */
static mscrt_status *run_instruction(unpickler *u, uint8_t op) {
  mscrt_py **item;
  uint32_t num;
  char text[64];
  switch (op) {
    case 0x80: return skip_bytes(u, 1, "no protocol");
    case 0x95: return skip_bytes(u, 8, "no frame");
    case '(': return push_mark(u);
    case '0': return pop_value(u) ? NULL : bad_pickle(u, "an empty stack");
    case '1': return pop_mark(u, &item, &num) ? NULL : bad_pickle(u, "no mark");
    case 'N': return push_new(u, (mscrt_py){.kind = MSCRT_PY_NONE});
    case 0x88:
    case 0x89: return push_new(u, (mscrt_py){.kind = MSCRT_PY_BOOL, .number = op == 0x88});
    case 'J': return push_int(u, 4);
    case 'K': return push_int(u, 1);
    case 'M': return push_int(u, 2);
    case 0x8a: return push_long(u);
    case 'G':
      MSCRT_CHECK(skip_bytes(u, 8, "a number leaves the pickle"));
      return push_new(u, (mscrt_py){.kind = MSCRT_PY_FLOAT});
    case 'X':
    case 'B':
    case 'T': return push_text(u, 4);
    case 0x8c:
    case 'C':
    case 'U': return push_text(u, 1);
    case 0x8d:
    case 0x8e: return push_text(u, 8);
    case ')': return push_items(u, MSCRT_PY_TUPLE, NULL, 0);
    case 't': return push_marked(u, MSCRT_PY_TUPLE);
    case 0x85:
    case 0x86:
    case 0x87: return push_tuple(u, op - 0x84u);
    case ']':
    case 0x8f: return push_items(u, MSCRT_PY_LIST, NULL, 0);
    case 'l':
    case 0x91: return push_marked(u, MSCRT_PY_LIST);
    case 'a': return put_items(u, false, false);
    case 'e':
    case 0x90: return put_items(u, false, true);
    case '}': return push_items(u, MSCRT_PY_DICT, NULL, 0);
    case 'd': return push_marked(u, MSCRT_PY_DICT);
    case 's': return put_items(u, true, false);
    case 'u': return put_items(u, true, true);
    case 'c': return push_global_lines(u);
    case 0x93: return push_global_stack(u);
    case 'R':
    case 0x81: return push_object(u);
    case 'b': return build_object(u);
    case 'Q': return push_persistent(u);
    case 'q': return use_memo(u, 1, remember);
    case 'r': return use_memo(u, 4, remember);
    case 0x94: return remember(u, u->num_memo);
    case 'h': return use_memo(u, 1, recall);
    case 'j': return use_memo(u, 4, recall);
    default: snprintf(text, sizeof text, "instruction 0x%02x, which is not supported,", op); return bad_pickle(u, text);
  }
}

mscrt_status *mscrt_pickle_parse(const mscrt_blob *b, const uint8_t *data, size_t bytes, mscrt_pickle *out) {
  unpickler u = {.b = b, .start = data, .at = data, .end = data + bytes};
  mscrt_status *s = NULL;
  *out = (mscrt_pickle){0};
  while (!s) {
    if (u.at == u.end) s = bad_pickle(&u, "no end");
    else if (*u.at == '.') break;
    else s = run_instruction(&u, *u.at++);
  }
  if (!s && (u.num_marks || u.num_stack != 1)) s = bad_pickle(&u, "not one value");
  out->memory = u.blocks;
  if (!s) out->root = u.stack[0];
  free(u.stack);
  free(u.memo);
  free(u.mark);
  if (s) mscrt_pickle_free(out);
  return s;
}

void mscrt_pickle_free(mscrt_pickle *p) {
  for (block *b = p->memory, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  *p = (mscrt_pickle){0};
}

/* ---- asking ---- */

const mscrt_py *mscrt_py_get(const mscrt_py *v, const char *key) {
  if (!v || (v->kind != MSCRT_PY_DICT && v->kind != MSCRT_PY_OBJECT)) return NULL;
  for (uint32_t i = 0; i + 1 < v->num; i += 2)
    if (v->item[i]->kind == MSCRT_PY_TEXT && !strcmp(v->item[i]->text, key)) return v->item[i + 1];
  return v->kind == MSCRT_PY_OBJECT && v->state && v->state->kind == MSCRT_PY_DICT ? mscrt_py_get(v->state, key) : NULL;
}

bool mscrt_py_is(const mscrt_py *v, const char *of) {
  return v && v->kind == MSCRT_PY_OBJECT && !strcmp(v->of->text, of);
}

bool mscrt_py_sizes(const mscrt_py *v, int *out_num, int64_t out[MSCRT_MAX_RANK]) {
  if (mscrt_py_is(v, "torch.Size")) v = v->args->num == 1 ? v->args->item[0] : NULL;
  *out_num = 0;
  if (!v || (v->kind != MSCRT_PY_TUPLE && v->kind != MSCRT_PY_LIST) || v->num > MSCRT_MAX_RANK) return false;
  for (uint32_t i = 0; i < v->num; i++) {
    if (v->item[i]->kind != MSCRT_PY_INT || v->item[i]->number < 0) return false;
    out[i] = v->item[i]->number;
  }
  *out_num = (int)v->num;
  return true;
}
