/* schedule_transformer.c: sizes of a transformer in; bytes that a rank keeps for each of its layers out.
 *
 * Activations: Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models", table 2:
 * values of two bytes, masks of dropout of one.  With s, b, h, a for sequence, samples, width and heads, a layer keeps
 * sbh(34 + 5as/h).  Tensor parallelism cuts 24 of the 34 and the 5as/h, which are attention's scores; sequence
 * parallelism cuts the other 10 too.  Computing the scores again leaves out 5as/h; computing everything again leaves
 * the layer's input, 2sbh.
 * State: 12h^2 parameters in a layer's products, 18 bytes each: the value in two, its gradient in four, and
 * the optimizer's copy and two moments in four each. */
#include "tools/solve/schedule_transformer.h"

static const double MOST = 1 << 30;

static bool read_size(cli *c, const char *option, double absent, double *out) {
  *out = (double)cli_int(c, option + 2, (int64_t)absent);
  if (*out >= 1 && *out <= MOST) return true;
  return msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, option), "from 1 to %.0f, not %.0f", MOST, *out);
}

typedef struct {
  double layers, s, b, h, a, ways; /* as in the table; ways of tensor parallelism */
  bool sequence_too;               /* sequence parallelism */
  char again;                      /* first letter of none, selective, full */
} sizes;

static double layer_bytes(const sizes *m) {
  double whole = m->sequence_too ? 10 / m->ways : 10, cut = 24 / m->ways;
  double scores = m->again == 's' ? 0 : 5 * m->a * m->s / m->h / m->ways;
  return m->s * m->b * m->h * (m->again == 'f' ? 2 : whole + cut + scores);
}

static bool read_transformer_sizes(cli *c, int stages, int chunks, sizes *m) {
  const char *again = cli_text(c, "recompute");
  *m = (sizes){.sequence_too = cli_flag(c, "sequence-parallel"), .again = again ? *again : 'n'};
  bool ok = read_size(c, "--transformer", 0, &m->layers);
  ok = read_size(c, "--sequence", 0, &m->s) && ok;
  ok = read_size(c, "--samples", 1, &m->b) && ok;
  ok = read_size(c, "--hidden", 0, &m->h) && ok;
  ok = read_size(c, "--heads", 0, &m->a) && ok;
  ok = read_size(c, "--tensor-parallel", 1, &m->ways) && ok;
  if (!ok || (int64_t)m->layers % ((int64_t)stages * chunks) == 0) return ok;
  return msc_error(c->ctx, MSC_E_CONFIG, cli_loc(c, "--transformer"),
                   "%.0f layers cannot be cut evenly into %d stages of %d chunks", m->layers, stages, chunks);
}

const char *schedule_transformer_option(cli *c) {
  static const char *const taking[] = {"transformer", "hidden",          "heads",    "sequence",
                                       "samples",     "tensor-parallel", "recompute"};
  for (size_t i = 0; i < sizeof taking / sizeof *taking; i++)
    if (cli_text(c, taking[i])) return taking[i];
  return cli_flag(c, "sequence-parallel") ? "sequence-parallel" : NULL;
}

int schedule_transformer_read(cli *c, int stages, int chunks, schedule_transformer *out) {
  static const char *const needed[] = {"sequence", "hidden", "heads"};
  sizes m;
  *out = (schedule_transformer){0};
  if (!cli_text(c, "transformer")) return CLI_OK;
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!cli_text(c, needed[i])) return cli_usage(c, "--%s is missing", needed[i]);
  if (!read_transformer_sizes(c, stages, chunks, &m)) return CLI_INPUT;
  double own = m.layers / stages;
  *out = (schedule_transformer){true, own, layer_bytes(&m), 18 * 12 * m.h * m.h * own / m.ways};
  return CLI_OK;
}
