/* windows.h: how a convolution on a CPU is cut into products over the elements that windows see, and the memory that
 * a worker needs for one product.  The compiler, which plans this memory, and the runtime, which checks the plan and
 * computes, share these functions.
 *
 *   y  [o, windows]   = w [o, c k l] * panels of windows [c k l, windows]       channels of x in chunks, added in order
 *   dw [o, c] of k, l = dy [o, windows] * panels of channels [windows, c]       images in groups, added in order
 *
 * Many small images are computed at once: each position of y, or of the data's gradient, is one product for all these
 * images, over those elements of the kernel that lie inside the image at this position.  So padding is not multiplied,
 * and with a stride above 1 no results overlap that would have to be added:
 *
 *   y  [o, images] at i, j = w [o, k l c]  * images transposed [k l c, images]      lines of the kernel, added in order
 *   dx [c, images] at i, j = w [c, k l o]  * dy transposed     [k l o, images]      the same
 *
 * Windows of 3 x 3 with stride 1 are computed by Winograd's transform (runtime/kernels/winograd.c).  A tile is 2 x 2
 * neighbouring elements of y and the 4 x 4 elements of x that they see; each of the 16 elements of transformed tiles
 * takes part in one of 16 products:
 *
 *   y  [o, tiles] = w [o, c] * x [c, tiles]        dx [c, tiles] = w [c, o] * dy [o, tiles]
 *   dw [o, c]     = dy [o, tiles] * x [tiles, c]   tiles in blocks, added in order
 *
 * Neither the choice of a form nor the order of the sums of y and dx depends on the number of images.  The sums of dw
 * do: images are summed in groups whose size depends on that number, so the sum of the gradients of several ranks is
 * the gradient of one rank only up to rounding.
 *
 * In a convolution in groups, where a channel of y sees only its group's channels of x, products would be too small.  A
 * work item then computes some groups of some images, each element as a sum over the kernel and neighbouring elements
 * together; or it computes the weights' gradient of one group, summed over the images.  Where a channel of y sees one
 * channel of x, a work item computes several channels together, a few lines at a time, from a copy of the elements that
 * they see in which channels are the last dimension.
 *
 * All are f32 and row major. */
#ifndef MSC_IR_WINDOWS_H
#define MSC_IR_WINDOWS_H

#include "ir/abi/product.h"

typedef enum { MSC_WINDOWS_MAKE_Y, MSC_WINDOWS_MAKE_X, MSC_WINDOWS_MAKE_WEIGHTS } msc_windows_result;

/* y[i] sees x[i step + k dilation - padding], in both dimensions. */
typedef struct {
  msc_windows_result makes;
  bool narrow; /* what is multiplied is rounded to bf16: an element of panels is a pair of terms (ir/abi/product.h) */
  int64_t n, c, x[2], o, y[2], groups, kernel[2], step[2], dilation[2], padding[2];
  int64_t width; /* columns of a panel */
} msc_windows;

/* A work item makes `rows` channels of y in `columns` windows of `images` images; or, of the weights' gradient, `rows`
 * channels of y times `columns` channels of x; or, of small images, `rows` channels of `images` images. */
typedef struct {
  int64_t images, rows, columns;
  /* channels of x that are packed at once, of small images those of x or dy that are transposed; of the weights'
   * gradient windows at most */
  int64_t terms;
  int64_t parts_o, parts, units;
  int64_t line, lines, channel;     /* of x with its padding: elements of a line, lines, elements of a channel */
  int64_t seen, panels, room, tile; /* elements of the worker's memory */
} msc_windows_cut;

enum {
  MSC_WINDOWS_MAX_SIZE = 1 << 20,   /* of an image */
  MSC_WINDOWS_MAX_STEP = 4096,      /* of steps, dilations, paddings, kernels */
  MSC_WINDOWS_MAX_WIDTH = 64,
  MSC_WINDOWS_MAX_BYTES = 8 << 20,  /* of a worker's memory: what needs more is unfolded */
  MSC_WINDOWS_SLACK = 16,           /* elements behind the last that copies of whole vectors touch */
};

static inline int64_t msc_windows_share(int64_t n, int64_t parts, int64_t unit) {
  int64_t part = ((n + parts - 1) / parts + unit - 1) / unit * unit;
  return part < n ? part : n;
}

static inline int64_t msc_windows_taps(const msc_windows *v) { return v->kernel[0] * v->kernel[1]; }
/* Returns how many elements of a panel's column hold so many terms of a sum. Zeros fill the last of them. */
static inline int64_t msc_windows_units(const msc_windows *v, int64_t terms) {
  return v->narrow ? msc_product_units(terms, 1, true) : terms;
}

static inline int64_t msc_windows_reach(const msc_windows *v, int d) { return (v->kernel[d] - 1) * v->dilation[d]; }

/* Returns how many channels an item makes: so few that the threads of a small machine share the items well, but at
 * least 32. */
static inline int64_t msc_windows_rows(int64_t o, int64_t items) {
  enum { FEW = 8, LEAST = 32 };
  int64_t parts = items < FEW ? FEW / items : 1;
  if (parts > o / LEAST) parts = o < LEAST ? 1 : o / LEAST;
  return msc_windows_share(o, parts, 4);
}

static inline msc_windows_cut msc_windows_cut_of_y(const msc_windows *v) {
  enum { TERMS = 640, PANELS = 96 * 1024, TILE = 64 * 1024, MANY = 16 };
  msc_windows_cut u = {0};
  int64_t taps = msc_windows_taps(v), windows = v->y[0] * v->y[1], s = v->step[1];
  u.images = windows % v->width == 0 || windows >= MANY * v->width ? 1 : v->n;
  int64_t chunks = (v->c * taps + TERMS - 1) / TERMS, all = u.images * windows;
  u.terms = msc_windows_share(v->c, chunks < v->c ? chunks : v->c, 1);
  bool in_tile = u.images > 1 || u.terms < v->c;
  int64_t columns = PANELS / (u.terms * taps), most = TILE / v->o;
  if (in_tile && columns > most) columns = most;
  columns = columns < v->width ? v->width : columns / v->width * v->width;
  u.columns = msc_windows_share(all, (all + columns - 1) / columns, v->width);
  u.parts = (all + u.columns - 1) / u.columns;
  u.rows = msc_windows_rows(v->o, v->n / u.images * u.parts);
  u.parts_o = (v->o + u.rows - 1) / u.rows;
  u.units = v->n / u.images * u.parts * u.parts_o;
  int64_t lines_y = u.columns / v->y[1] + 2, touched = u.columns / windows + 2;
  u.line = ((v->y[1] - 1) * s + msc_windows_reach(v, 1)) / s * s + s;
  u.lines = lines_y * v->step[0] + touched * (msc_windows_reach(v, 0) + 1);
  u.channel = u.line * u.lines;
  u.seen = u.terms * u.channel + MSC_WINDOWS_SLACK;
  u.panels = msc_product_panel_elems(u.columns, u.terms * taps, v->width) + MSC_WINDOWS_SLACK;
  u.room = v->narrow ? u.rows * msc_windows_units(v, u.terms * taps) : 0; /* weights in pairs */
  u.tile = in_tile ? 2 * u.rows * u.columns : 0;
  return u;
}

/* True if elements of the kernel that stand below each other read the same panel, from lines further down. */
static inline bool msc_windows_share_lines(const msc_windows *v, const msc_windows_cut *u) {
  bool pairs_fit = !v->narrow || v->y[1] * v->dilation[0] % 2 == 0;
  return u->images == 1 && v->step[0] == 1 && pairs_fit;
}

static inline msc_windows_cut msc_windows_cut_of_gradient(const msc_windows *v) {
  enum { LEAST = 256, MOST = 1024, ROWS = 256 };
  msc_windows_cut u = {.columns = v->width};
  int64_t windows = v->y[0] * v->y[1], lines = MOST / v->y[1];
  u.images = windows >= LEAST ? 1 : (LEAST + windows - 1) / windows;
  if (u.images > v->n) u.images = v->n;
  u.lines = u.images > 1 || lines >= v->y[0] ? v->y[0] : lines < 1 ? 1 : lines;
  u.terms = u.images * (u.lines + (msc_windows_share_lines(v, &u) ? msc_windows_reach(v, 0) : 0)) * v->y[1];
  u.parts = (v->c + u.columns - 1) / u.columns;
  u.rows = msc_windows_rows(v->o, u.parts);
  if (u.rows > ROWS) u.rows = msc_windows_share(v->o, (v->o + ROWS - 1) / ROWS, 4);
  u.parts_o = (v->o + u.rows - 1) / u.rows;
  u.units = u.parts * u.parts_o;
  int64_t seen = (u.lines - 1) * v->step[0] + msc_windows_reach(v, 0) + 1;
  /* Squares are transposed whole. */
  u.seen = (u.images * (seen < v->x[0] ? seen : v->x[0]) * v->x[1] + v->width) * v->width;
  u.panels = u.columns * u.terms + MSC_WINDOWS_SLACK;
  u.room = u.images > 1 || v->narrow ? u.rows * msc_windows_units(v, u.images * u.lines * v->y[1]) : 0;
  u.tile = (msc_windows_taps(v) + 1) * u.rows * u.columns;
  return u;
}

/* ---- small images ---- */

/* The channels that a product reads, and those that it makes. */
static inline int64_t msc_windows_channels_read(const msc_windows *v) {
  return v->makes == MSC_WINDOWS_MAKE_X ? v->o : v->c;
}
static inline int64_t msc_windows_channels_made(const msc_windows *v) {
  return v->makes == MSC_WINDOWS_MAKE_X ? v->c : v->o;
}
static inline const int64_t *msc_windows_size_read(const msc_windows *v) {
  return v->makes == MSC_WINDOWS_MAKE_X ? v->y : v->x;
}
static inline const int64_t *msc_windows_size_made(const msc_windows *v) {
  return v->makes == MSC_WINDOWS_MAKE_X ? v->x : v->y;
}

/* True if images are laid side by side. Larger images are not: a line of their windows fills vectors, and little of it
 * is padding. */
static inline bool msc_windows_lie_side_by_side(const msc_windows *v) {
  enum { WINDOWS = 64, PIXELS = 256, CHANNELS = 16 };
  return v->groups == 1 && v->makes != MSC_WINDOWS_MAKE_WEIGHTS && v->y[0] * v->y[1] <= WINDOWS &&
         v->x[0] * v->x[1] <= PIXELS && msc_windows_channels_read(v) >= CHANNELS;
}

/* True if windows are brought together as tiles. Small images are not, because much of a tile would lie beside them;
 * nor is what is multiplied in bf16, because transformed tiles would be rounded once more, and take as long. */
static inline bool msc_windows_are_tiles(const msc_windows *v) {
  enum { WINDOWS = 64, CHANNELS = 16 };
  return v->groups == 1 && !v->narrow && v->kernel[0] == 3 && v->kernel[1] == 3 && v->step[0] == 1 && v->step[1] == 1 &&
         v->dilation[0] == 1 && v->dilation[1] == 1 && v->c >= CHANNELS && v->o >= CHANNELS && v->y[0] > 2 &&
         v->y[1] > 2 && v->x[0] > 2 && v->x[1] > 2 && v->y[0] * v->y[1] > WINDOWS;
}

/* True if what is multiplied may be rounded to bf16: of small images the channels have to fill whole chunks of
 * pairs. */
static inline bool msc_windows_take_pairs(const msc_windows *v) {
  enum { CHANNELS = 2 * MSC_PRODUCT_CHUNK };
  return v->groups == 1 && (!msc_windows_lie_side_by_side(v) || msc_windows_channels_read(v) % CHANNELS == 0);
}

/* True if packing transposes what it reads. */
static inline bool msc_windows_pack_transposed(const msc_windows *v) {
  return v->makes == MSC_WINDOWS_MAKE_WEIGHTS || msc_windows_lie_side_by_side(v) || msc_windows_are_tiles(v);
}

static inline int64_t msc_windows_most(int64_t a, int64_t b) { return a > b ? a : b; }

static inline msc_windows_cut msc_windows_cut_of_small(const msc_windows *v) {
  enum { FEW = 8, LEAST = 32, BLOCKS = 2, PACKED = 512 };
  int64_t taps = msc_windows_taps(v), read = msc_windows_channels_read(v), made = msc_windows_channels_made(v);
  const int64_t *from = msc_windows_size_read(v), *to = msc_windows_size_made(v);
  int64_t pixels = from[0] * from[1], places = to[0] * to[1];
  msc_windows_cut u = {.images = v->n < BLOCKS * v->width ? v->n : BLOCKS * v->width, .columns = v->width};
  u.parts = (v->n + u.images - 1) / u.images;
  int64_t parts = u.parts < FEW ? FEW / u.parts : 1, most = made / (places < LEAST ? 2 * LEAST : LEAST);
  u.rows = msc_windows_share(made, parts < most ? parts : msc_windows_most(most, 1), 4);
  u.parts_o = (made + u.rows - 1) / u.rows;
  u.units = u.parts * u.parts_o;
  u.terms = msc_windows_share(read, (read * pixels + PACKED - 1) / PACKED, v->narrow ? 2 : 1);
  u.seen = pixels * read * v->width;
  u.panels = msc_product_panel_elems(v->width, msc_windows_most(u.terms * pixels, u.rows * taps), v->width);
  u.panels = msc_windows_most(u.panels, v->kernel[1] * read * v->width);
  u.room = taps * u.rows * read;
  u.tile = u.rows * places * v->width + places; /* and a list of them */
  return u;
}

/* ---- groups of channels ---- */

enum { MSC_WINDOWS_LANES = 4 }; /* elements that are computed together */

/* Sets how a channel of a group is read: steps of the windows, size with padding, and reach. */
static inline void msc_windows_read_group(const msc_windows *v, msc_windows_cut *u) {
  bool data = v->makes == MSC_WINDOWS_MAKE_X;
  const int64_t *made = data ? v->x : v->y;
  int64_t step[2] = {data ? 1 : v->step[0], data ? 1 : v->step[1]};
  int64_t whole = (made[1] + MSC_WINDOWS_LANES - 1) / MSC_WINDOWS_LANES * MSC_WINDOWS_LANES;
  u->line = ((whole - 1) * step[1] + msc_windows_reach(v, 1)) / step[1] * step[1] + step[1];
  u->lines = (made[0] - 1) * step[0] + msc_windows_reach(v, 0) + 1;
  u->channel = u->line * u->lines;
}

static inline msc_windows_cut msc_windows_cut_of_groups(const msc_windows *v) {
  enum { WORK = 1 << 16 };
  bool weights = v->makes == MSC_WINDOWS_MAKE_WEIGHTS;
  int64_t taps = msc_windows_taps(v), read = msc_windows_channels_read(v) / v->groups,
          made = msc_windows_channels_made(v) / v->groups, places = v->y[0] * v->y[1];
  msc_windows_cut u = {.images = weights ? v->n : 1, .columns = MSC_WINDOWS_LANES};
  double work = (double)places * (double)read * (double)taps * (double)made; /* of a group of an image */
  int64_t rows = work < WORK ? (int64_t)(WORK / work) : 1;
  u.rows = weights ? 1 : rows < v->groups ? rows : v->groups;
  msc_windows_read_group(v, &u);
  u.parts_o = (v->groups + u.rows - 1) / u.rows;
  u.parts = weights ? 1 : v->n;
  u.units = u.parts * u.parts_o;
  u.seen = read * u.channel + MSC_WINDOWS_SLACK;
  u.panels = taps; /* where they are */
  u.room = weights ? v->y[0] * (v->y[1] + MSC_WINDOWS_LANES) : 0;
  u.tile = weights ? made * read * taps * MSC_WINDOWS_LANES : 0;
  return u;
}

/* ---- channels by themselves ---- */

enum {
  MSC_WINDOWS_CHANNELS = 16, /* that are made side by side, at most: 16, 8 or 4 */
  MSC_WINDOWS_SUMS = 9,      /* elements of the kernel whose gradients are summed at once */
};

/* True if each channel of y sees one of x, and each of x is seen by one of y. */
static inline bool msc_windows_are_apart(const msc_windows *v) {
  return v->groups > 1 && v->c == v->groups && v->o == v->groups;
}

static inline int64_t msc_windows_divide_down(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* The first place of dy, in dimension d, that is seen from the first place of x or before; and how many places behind
 * that `places` steps of x see. */
static inline int64_t msc_windows_first_seen(const msc_windows *v, int d) {
  return msc_windows_divide_down(v->padding[d] - msc_windows_reach(v, d), v->step[d]);
}
static inline int64_t msc_windows_num_seen(const msc_windows *v, int d, int64_t places) {
  return places + msc_windows_divide_down(v->step[d] - 1 + v->padding[d], v->step[d]) - msc_windows_first_seen(v, d);
}

/* An item makes `columns` channels of an image, or the weights' gradient of so many, `rows` lines at a time; of dx they
 * are whole steps. */
static inline msc_windows_cut msc_windows_cut_of_channels(const msc_windows *v) {
  enum { BAND = 24 * 1024, FEW = 4, LEAST = 4 };
  bool weights = v->makes == MSC_WINDOWS_MAKE_WEIGHTS, data = v->makes == MSC_WINDOWS_MAKE_X;
  int64_t taps = msc_windows_taps(v), n = weights ? 1 : v->n, s = v->step[0];
  const int64_t *places = data ? v->x : v->y;
  msc_windows_cut u = {.images = weights ? v->n : 1, .columns = MSC_WINDOWS_CHANNELS};
  while (u.columns > LEAST && n * ((v->groups + u.columns - 1) / u.columns) < FEW) u.columns /= 2;
  u.parts = (v->groups + u.columns - 1) / u.columns;
  u.units = n * u.parts;
  u.line = data ? msc_windows_num_seen(v, 1, (v->x[1] + v->step[1] - 1) / v->step[1])
                : (v->y[1] - 1) * v->step[1] + msc_windows_reach(v, 1) + 1;
  int64_t lines = BAND / (u.line * u.columns), reach = msc_windows_reach(v, 0);
  u.rows = data ? (lines - msc_windows_num_seen(v, 0, 0)) * s : (lines - reach - 1) / s + 1;
  if (u.rows > places[0]) u.rows = places[0];
  if (u.rows < 1) u.rows = 1;
  if (data) u.rows = (u.rows + s - 1) / s * s;
  u.lines = data ? msc_windows_num_seen(v, 0, u.rows / s) : (u.rows - 1) * s + reach + 1;
  u.channel = u.line * u.lines;
  u.seen = u.channel * u.columns;
  u.panels = 2 * taps + MSC_WINDOWS_SUMS; /* which elements of the kernel, and where they are */
  u.room = u.rows * places[1] * u.columns;
  u.tile = (taps + MSC_WINDOWS_SUMS) * u.columns;
  return u;
}

/* ---- tiles of small windows ---- */

static inline int64_t msc_windows_aligned(int64_t elems) { return (elems + 15) / 16 * 16; }

enum {
  MSC_WINOGRAD_STEP = 2, /* elements of y in a tile, in each dimension */
  MSC_WINOGRAD_SEEN = 4, /* elements of x that a tile sees, in each dimension */
  MSC_WINOGRAD_ELEMS = 16,
  MSC_WINOGRAD_TAPS = 9,
  MSC_WINOGRAD_LANES = 8, /* panels' widths are multiples of it */
};

/* Returns the number of tiles in dimension d of what a product makes; for the weights' gradient, of y. */
static inline int64_t msc_winograd_tiles(const msc_windows *v, int d) {
  return (msc_windows_size_made(v)[d] + MSC_WINOGRAD_STEP - 1) / MSC_WINOGRAD_STEP;
}

/* Returns a stride for `elems` elements: an odd multiple of a cache line, with room for a vector behind the last
 * element. */
static inline int64_t msc_winograd_stride(int64_t elems) {
  return msc_windows_aligned(elems + MSC_WINOGRAD_LANES) | 16;
}

/* Returns the distance from a row of transformed tiles of a block to the next. */
static inline int64_t msc_winograd_row(const msc_windows_cut *u) { return msc_winograd_stride(u->columns); }
/* Returns the distance from a row of transformed weights to the next. */
static inline int64_t msc_winograd_weights(const msc_windows *v) {
  return msc_winograd_stride(msc_windows_channels_read(v));
}
/* Returns the distance from one element of all rows' transformed tiles or weights, or of panels, to the next. */
static inline int64_t msc_winograd_rows(int64_t rows, int64_t row) { return rows * row + 16; }
static inline int64_t msc_winograd_panels(const msc_windows *v, int64_t tiles) {
  return msc_product_panel_elems(tiles, msc_windows_channels_read(v), v->width) + 16;
}

/* Elements of each place of tiles in a line of the image, and of its lines in a block. */
static inline int64_t msc_winograd_places(const msc_windows *v) {
  return msc_windows_aligned(msc_winograd_tiles(v, 1) + 1 + MSC_WINOGRAD_LANES);
}
static inline int64_t msc_winograd_lines(const msc_windows *v, const msc_windows_cut *u) {
  int64_t lines = msc_winograd_tiles(v, 0);
  return msc_windows_aligned((1 + (lines < u->lines ? lines : u->lines)) * msc_winograd_tiles(v, 1) +
                             MSC_WINOGRAD_LANES);
}

/* Chooses how many lines of tiles are a block: as many as the nearer caches hold of all channels, and of these the
 * number whose tiles fill panels best. */
static inline int64_t msc_winograd_lines_of_block(const msc_windows *v) {
  enum { CHANNELS = 32 * 1024, LEAST = 64, MOST = 256, WIDTH = 32 };
  int64_t line = msc_winograd_tiles(v, 1), best = 1, most = CHANNELS / msc_windows_channels_read(v);
  if (v->makes == MSC_WINDOWS_MAKE_WEIGHTS || most > MOST) most = MOST;
  if (most < LEAST) most = LEAST;
  for (int64_t lines = 2; lines * line <= most; lines++) {
    int64_t panels = (lines * line + WIDTH - 1) / WIDTH, before = (best * line + WIDTH - 1) / WIDTH;
    if (lines * before >= best * panels) best = lines;
  }
  return best;
}

/* An item makes `rows` channels of `terms` lines of tiles, `lines` at a time. */
static inline msc_windows_cut msc_windows_cut_of_tiles(const msc_windows *v) {
  enum { TILES = 224, WEIGHTS = 32 * 1024 };
  int64_t read = msc_windows_channels_read(v), made = msc_windows_channels_made(v), line = msc_winograd_tiles(v, 1),
          all = v->n * msc_winograd_tiles(v, 0), most = WEIGHTS / read < 32 ? 32 : WEIGHTS / read;
  msc_windows_cut u = {.lines = msc_winograd_lines_of_block(v)};
  u.columns = u.lines * line;
  u.terms = TILES / line < 1 ? 1 : TILES / line;
  u.terms = (u.terms + u.lines - 1) / u.lines * u.lines;
  u.parts = (all + u.terms - 1) / u.terms;
  u.rows = msc_windows_rows(made, u.parts);
  if (u.rows > most) u.rows = msc_windows_share(made, (made + most - 1) / most, 4);
  u.parts_o = (made + u.rows - 1) / u.rows;
  u.units = u.parts * u.parts_o;
  int64_t row = msc_winograd_row(&u), places = MSC_WINOGRAD_STEP * msc_winograd_places(v);
  u.seen = MSC_WINOGRAD_ELEMS * row + 8 * msc_winograd_lines(v, &u) + 2 * places;
  u.panels = MSC_WINOGRAD_ELEMS * msc_winograd_panels(v, u.columns);
  int64_t taps = msc_product_panel_elems(v->width, u.rows * MSC_WINOGRAD_TAPS, v->width);
  if (u.panels < taps) u.panels = taps;
  u.room = MSC_WINOGRAD_ELEMS * msc_winograd_rows(u.rows, msc_winograd_weights(v));
  u.tile = MSC_WINOGRAD_ELEMS * msc_winograd_rows(u.rows, row) + 4 * row + places;
  return u;
}

/* An item of the weights' gradient makes `rows` channels of y times a panel's of x; columns are tiles of a block. */
static inline msc_windows_cut msc_windows_cut_of_tiles_gradient(const msc_windows *v) {
  enum { ROWS = 64 };
  msc_windows_cut u = {.lines = msc_winograd_lines_of_block(v), .terms = v->n * msc_winograd_tiles(v, 0)};
  u.columns = u.lines * msc_winograd_tiles(v, 1);
  u.parts = (v->c + v->width - 1) / v->width;
  u.rows = msc_windows_rows(v->o, u.parts);
  if (u.rows > ROWS) u.rows = msc_windows_share(v->o, (v->o + ROWS - 1) / ROWS, 4);
  u.parts_o = (v->o + u.rows - 1) / u.rows;
  u.units = u.parts * u.parts_o;
  int64_t lines = MSC_WINOGRAD_STEP * ((u.lines < msc_winograd_tiles(v, 0) ? u.lines : msc_winograd_tiles(v, 0)) + 1);
  u.seen = ((lines < v->x[0] ? lines : v->x[0]) * v->x[1] + v->width + 1) * v->width;
  u.panels = MSC_WINOGRAD_ELEMS * (u.columns * v->width + 16);
  u.room = u.rows * MSC_WINOGRAD_ELEMS * msc_winograd_row(&u);
  u.tile = MSC_WINOGRAD_ELEMS * msc_winograd_rows(u.rows, v->width) + 4 * msc_winograd_row(&u) +
           2 * MSC_WINOGRAD_STEP * msc_winograd_places(v);
  return u;
}

static inline msc_windows_cut msc_windows_cut_of(const msc_windows *v) {
  if (msc_windows_are_apart(v)) return msc_windows_cut_of_channels(v);
  if (v->groups > 1) return msc_windows_cut_of_groups(v);
  if (msc_windows_are_tiles(v))
    return v->makes == MSC_WINDOWS_MAKE_WEIGHTS ? msc_windows_cut_of_tiles_gradient(v) : msc_windows_cut_of_tiles(v);
  if (msc_windows_lie_side_by_side(v)) return msc_windows_cut_of_small(v);
  return v->makes == MSC_WINDOWS_MAKE_WEIGHTS ? msc_windows_cut_of_gradient(v) : msc_windows_cut_of_y(v);
}

/* Returns the bytes of a worker's memory: what windows see, panels, rows of dy, results. */
static inline int64_t msc_windows_bytes(const msc_windows_cut *u) {
  return 4 * (msc_windows_aligned(u->seen) + msc_windows_aligned(u->panels) + msc_windows_aligned(u->room) +
              msc_windows_aligned(u->tile));
}

/* True if all sizes are small enough for the functions above. */
static inline bool msc_windows_fit(const msc_windows *v) {
  bool ok = v->width > 0;
  const int64_t sizes[] = {v->n, v->c, v->o, v->x[0], v->x[1], v->y[0], v->y[1], v->groups},
                steps[] = {v->kernel[0], v->kernel[1], v->step[0], v->step[1], v->dilation[0], v->dilation[1]};
  for (int i = 0; i < 8; i++) ok = ok && sizes[i] > 0 && sizes[i] <= MSC_WINDOWS_MAX_SIZE;
  for (int i = 0; i < 6; i++) ok = ok && steps[i] > 0 && steps[i] <= MSC_WINDOWS_MAX_STEP;
  return ok;
}

#endif
