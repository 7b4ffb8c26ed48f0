/* expected_misses.c: the sizes of a table and of its cache, and how many rows a step reads, in; how many of these rows
 * are expected not to be in the cache, if rows are drawn by Zipf's law, out. */
#include <math.h>

#include "codegen/plan/plan.h"

/* The first rows are summed one by one, the rows behind row n in steps of n / STEPS rows. */
enum { ONE_BY_ONE = 1024, STEPS = 64 };

/* Expected numbers of rows behind the first `hot` ones, which the cache always keeps. */
typedef struct {
  double named, missed; /* rows that a step reads; those of them that the step before did not read */
} cold_rows;

/* Returns the probability that a step names row i of the table. */
static double chance_of(double i, double sum, double numbers) {
  return -expm1(numbers * log1p(-fmin(pow(i + 1, -MSC_ZIPF_EXPONENT) / sum, 1 - 1e-12)));
}

/* Returns the next border behind row `at`: one row further, or further by a 64th of the rows before it. */
static double next_row_border(double at, double rows) {
  double step = at < ONE_BY_ONE ? 1 : floor(at / STEPS);
  return at + step < rows ? at + step : rows;
}

static double sum_of_weights(double rows) {
  double sum = 0;
  for (double at = 0, end; at < rows; at = end) {
    end = next_row_border(at, rows);
    sum += (end - at) * pow((at + end + 1) / 2, -MSC_ZIPF_EXPONENT);
  }
  return sum;
}

static cold_rows cold_rows_behind(double hot, double rows, double sum, double numbers) {
  cold_rows c = {0};
  for (double at = hot, end; at < rows; at = end) {
    end = next_row_border(at, rows);
    double chance = chance_of((at + end - 1) / 2, sum, numbers);
    c.named += (end - at) * chance, c.missed += (end - at) * chance * (1 - chance);
  }
  return c;
}

/* Assumes that the cache holds the rows that are used most, and beside them those that the last step named. */
double msc_expected_misses(uint64_t rows, uint64_t cached, double numbers) {
  double all = (double)rows, room = (double)cached, sum = sum_of_weights(all), low = 0, high = room;
  if (cached >= rows) return 0;
  for (int i = 0; i < 60; i++) {
    double hot = (low + high) / 2;
    if (hot + cold_rows_behind(hot, all, sum, numbers).named > room) high = hot;
    else low = hot;
  }
  return cold_rows_behind(floor(low), all, sum, numbers).missed;
}
