/* schedule_chain.c: a chain of steps and a number of checkpoints in; what is computed again when, out.  Or how often a
 * step may be computed again, and the longest chain for that. */
#include "tools/solve/schedule_chain.h"

#include "passes/4_partition/chain.h"

enum { MOST_CHECKPOINTS = 4096, MOST_STEPS = 1 << 20 };
static const int64_t MOST_FORWARDS = 4000000;

static const char *const names[] = {[MSC_CHAIN_FORWARD] = "F",
                                    [MSC_CHAIN_BACKWARD] = "B",
                                    [MSC_CHAIN_STORE] = "store",
                                    [MSC_CHAIN_RESTORE] = "restore",
                                    [MSC_CHAIN_FREE] = "free"};

static bool read_number(cli *c, const char *option, int64_t least, int64_t most, int64_t *out) {
  *out = cli_int(c, option + 2, least);
  return (*out >= least && *out <= most) ||
         msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, option), "from %" PRId64 " to %" PRId64 ", not %" PRId64, least,
                   most, *out);
}

static int print_chain_json(cli *c, int64_t steps, int64_t checkpoints, int64_t most, const msc_chain *chain) {
  cli_output *out = cli_open(c, NULL);
  if (!out) return CLI_ENVIRONMENT;
  cli_printf(out,
             "{\"steps\":%" PRId64 ",\"checkpoints\":%" PRId64 ",\"repeats\":%" PRId64 ",\"forwards\":%" PRId64
             ",\"max_steps\":%" PRId64 ",\"order\":[",
             steps, checkpoints, chain->repeats, chain->forwards, most);
  for (size_t i = 0; i < chain->num; i++)
    cli_printf(out, "%s{\"kind\":\"%s\",\"step\":%" PRId64 "}", i ? "," : "", names[chain->entry[i].work],
               chain->entry[i].step);
  cli_printf(out, "]}\n");
  return cli_close(c, out);
}

static int print_chain_text(cli *c, int64_t steps, int64_t checkpoints, int64_t most, const msc_chain *chain) {
  cli_output *out = cli_open(c, NULL);
  if (!out) return CLI_ENVIRONMENT;
  for (size_t i = 0; i < chain->num; i++)
    cli_printf(out, "%s %" PRId64 "\n", names[chain->entry[i].work], chain->entry[i].step);
  cli_printf(out,
             "%" PRId64 " steps, %" PRId64 " checkpoints: %" PRId64 " forwards, %" PRId64
             " at most of one step, which is enough for %" PRId64 " steps\n",
             steps, checkpoints, chain->forwards, chain->repeats, most);
  return cli_close(c, out);
}

int schedule_chain(cli *c) {
  int64_t checkpoints, steps, repeats = -1;
  bool by_repeats = cli_text(c, "repeats");
  if (!cli_text(c, "checkpoints") || by_repeats == (cli_text(c, "chain") != NULL))
    return cli_usage(c, "--checkpoints goes with either --chain or --repeats");
  bool ok = read_number(c, "--checkpoints", 1, MOST_CHECKPOINTS, &checkpoints);
  ok = (by_repeats ? read_number(c, "--repeats", 0, MOST_STEPS, &repeats)
                   : read_number(c, "--chain", 1, MOST_STEPS, &steps)) &&
       ok;
  if (!ok) return CLI_INPUT;
  if (by_repeats) steps = msc_chain_most(checkpoints, repeats);
  if (steps > MOST_STEPS || msc_chain_forwards(steps, checkpoints) > MOST_FORWARDS)
    return msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, by_repeats ? "--repeats" : "--chain"),
                     "%" PRId64 " steps: their order is longer than this prints", steps),
           CLI_INPUT;
  msc_chain chain = msc_chain_reverse(msc_context_arena(c->ctx), steps, checkpoints);
  int64_t most = msc_chain_most(checkpoints, by_repeats ? repeats : chain.repeats);
  return (c->json ? print_chain_json : print_chain_text)(c, steps, checkpoints, most, &chain);
}
