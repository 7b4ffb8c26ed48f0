/* hosts.c: a file of hosts in; the commands that start ranks there, and their token, out (hosts.h). */
#include "tools/cluster/hosts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "tools/cli_state.h"

enum { MOST_HOSTS = 4096 };

/* ---- the file ---- */

static bool refuse_line(cli *c, const char *path, int line, const char *why, const char *text) {
  msc_loc loc = {.file = path, .line = (uint32_t)line, .col = 1};
  return msc_error(c->ctx, MSC_E_FORMAT, msc_loc_of(c->ctx, &loc), "%s '%s'", why, text);
}

static bool is_host_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@:%";
  return *name && *name != '-' && strspn(name, letters) == strlen(name);
}

static bool read_slots(const char *word, int *out) {
  char *end;
  if (strncmp(word, "slots=", 6)) return false;
  long v = strtol(word + 6, &end, 10);
  *out = (int)v;
  return word[6] && !*end && v >= 1 && v <= MOST_HOSTS;
}

static bool read_host(cli *c, const char *path, int line, char *text, size_t *num, launch_host *host) {
  char *rest, *name = strtok_r(text, " \t\r", &rest), *word;
  if (!name) return true;
  launch_host h = {.name = msc_intern(c->ctx, name)};
  if (!is_host_name(name)) return refuse_line(c, path, line, "this is no name of a host:", name);
  const char *at = strchr(h.name, '@');
  h.address = at ? at + 1 : h.name;
  while ((word = strtok_r(NULL, " \t\r", &rest)))
    if (!read_slots(word, &h.slots))
      return refuse_line(c, path, line, "behind a host stands slots=N, with at least one slot, not", word);
  for (size_t i = 0; i < *num; i++)
    if (!strcmp(host[i].address, h.address)) return refuse_line(c, path, line, "the file names a host twice:", name);
  if (*num == MOST_HOSTS) return refuse_line(c, path, line, "the file has more than 4096 hosts:", name);
  host[(*num)++] = h;
  return true;
}

bool hosts_read(cli *c, const char *path, size_t *out_num, launch_host **out_host) {
  cli_bytes file;
  msc_arena *a = msc_context_arena(c->ctx);
  *out_num = 0;
  MSC_TRY(cli_read(c, path, &file));
  char *text = msc_arena_printf(a, "%.*s", (int)file.size, (const char *)file.data), *rest = text, *line;
  *out_host = msc_new_array(a, launch_host, MOST_HOSTS);
  for (int number = 1; (line = strsep(&rest, "\n")); number++) {
    line[strcspn(line, "#")] = 0;
    MSC_TRY(read_host(c, path, number, line, out_num, *out_host));
  }
  return *out_num || msc_error(c->ctx, MSC_E_FORMAT, cli_loc(c, path), "names no hosts");
}

/* ---- the token ---- */

const char *hosts_token(cli *c) {
  const char *path = getenv("MSC_TOKEN_FILE");
  uint8_t bytes[32];
  char *text = msc_arena_alloc(msc_context_arena(c->ctx), 2 * sizeof bytes + 1);
  if (path && *path) {
    cli_bytes file;
    if (!cli_read(c, path, &file)) return NULL;
    char *token = msc_arena_printf(msc_context_arena(c->ctx), "%.*s", (int)file.size, (const char *)file.data);
    token[strcspn(token, "\r\n")] = 0;
    return token;
  }
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    return msc_error(c->ctx, MSC_E_FILE, NULL, "no random numbers for a token"), NULL;
  for (size_t i = 0; i < sizeof bytes; i++) sprintf(text + 2 * i, "%02x", bytes[i]);
  return text;
}

/* ---- the command ---- */

/* Quotes a word for the shell. */
static const char *quote_word(msc_arena *a, const char *word) {
  char *out = msc_arena_alloc(a, 4 * strlen(word) + 3), *to = out;
  *to++ = '\'';
  for (; *word; word++) to = *word == '\'' ? stpcpy(to, "'\\''") : (*to = *word, to + 1);
  *to = '\'';
  return out;
}

const char *const *hosts_command(cli *c, const launch_host *host, const char *options) {
  msc_arena *a = msc_context_arena(c->ctx);
  char self[4096], folder[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  snprintf(self + (n < 0 ? 0 : n), sizeof self - (size_t)(n < 0 ? 0 : n), "%s", n < 0 ? "msc" : "");
  if (!getcwd(folder, sizeof folder)) strcpy(folder, "/");
  const char *program = "";
  for (size_t i = 0; i < (size_t)c->num_operands; i++)
    program = msc_arena_printf(a, "%s %s", program, quote_word(a, c->operands[i]));
  /* the token is in a file that only this user reads, and that is gone when the ranks have ended */
  const char *script = msc_arena_printf(
      a,
      "cd %s || exit 3; umask 077; IFS= read -r token && file=$(mktemp) || exit 3; "
      "printf '%%s\\n' \"$token\" >\"$file\"; MSC_LIFELINE=1 MSC_TOKEN_FILE=$file %s launch %s --%s; code=$?; "
      "rm -f \"$file\"; exit $code",
      quote_word(a, folder), quote_word(a, self), options, program);
  const char **words = msc_new_array(a, const char *, 8);
  size_t k = 0;
  words[k++] = "ssh", words[k++] = "-T", words[k++] = "-o", words[k++] = "BatchMode=yes", words[k++] = host->name;
  words[k++] = msc_arena_printf(a, "sh -c %s", quote_word(a, script));
  return words;
}
