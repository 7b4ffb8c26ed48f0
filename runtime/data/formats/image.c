/* image.c: a PNG or JPEG file in memory in; its picture, cut to the size that an input wants, out.
 *
 * Decoding is libpng's (simplified API, png_image of png.h 1.6) and libjpeg-turbo's (turbojpeg.h 2), loaded when the
 * first such file comes.  A picture of another size is scaled so that it just covers the wanted size, each pixel the
 * mean of the area that it covers or, where it is enlarged, between its neighbours, and its middle is kept. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/data.h"

#define PNG  "libpng16.so.16"
#define JPEG "libturbojpeg.so.0"

enum { MAX_SIDE = 1 << 16, PNG_VERSION = 1, PNG_GRAY = 0, PNG_RGB = 2, JPEG_RGB = 0, JPEG_GRAY = 6 };

/* png_image of png.h. */
typedef struct {
  void *opaque;
  uint32_t version, width, height, format, flags, colormap_entries, warning_or_error;
  char message[64];
} png_image;

typedef struct {
  uint8_t *pixel; /* height x width x channels */
  int64_t height, width;
} raster;

/* ---- libraries ---- */

static struct {
  int (*begin)(png_image *image, const void *memory, size_t size);
  int (*finish)(png_image *image, const void *background, void *buffer, int32_t row_stride, void *colormap);
  void (*free)(png_image *image);
} png;

static struct {
  void *(*open)(void);
  int (*header)(void *handle, const unsigned char *jpeg, unsigned long size, int *width, int *height, int *subsampling,
                int *colours);
  int (*decode)(void *handle, const unsigned char *jpeg, unsigned long size, unsigned char *out, int width, int pitch,
                int height, int format, int flags);
  char *(*error)(void *handle);
  int (*close)(void *handle);
} jpeg;

static bool has_png, has_jpeg;

static bool load(const char *library, size_t num, const char *const *name, void **function) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  bool all = handle != NULL;
  for (size_t i = 0; i < num && all; i++) all = (function[i] = dlsym(handle, name[i])) != NULL;
  return all; /* never closed: functions are the process's */
}

static void load_png(void) {
  static const char *const names[] = {"png_image_begin_read_from_memory", "png_image_finish_read", "png_image_free"};
  has_png = load(PNG, 3, names, (void **)&png);
}

static void load_jpeg(void) {
  static const char *const names[] = {"tjInitDecompress", "tjDecompressHeader3", "tjDecompress2", "tjGetErrorStr2",
                                      "tjDestroy"};
  has_jpeg = load(JPEG, 5, names, (void **)&jpeg);
}

/* ---- decoding ---- */

static bool is_png(const uint8_t *head, size_t bytes) { return bytes >= 8 && !memcmp(head, "\x89PNG\r\n\x1a\n", 8); }
static bool is_jpeg(const uint8_t *head, size_t bytes) { return bytes >= 3 && !memcmp(head, "\xff\xd8\xff", 3); }
bool mscrt_is_image(const uint8_t *head, size_t bytes) { return is_png(head, bytes) || is_jpeg(head, bytes); }

static mscrt_status *make_raster(const char *name, int64_t height, int64_t width, int channels, raster *out) {
  *out = (raster){NULL, height, width};
  if (height < 1 || width < 1 || height > MAX_SIDE || width > MAX_SIDE)
    return mscrt_fail(MSCRT_INPUT, "%s: a picture of %" PRId64 " by %" PRId64 " pixels cannot be used", name, width,
                      height);
  out->pixel = malloc((size_t)(height * width * channels));
  return out->pixel ? NULL : mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory", name);
}

static mscrt_status *decode_png(const char *name, const void *bytes, size_t num, int channels, raster *out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  png_image image = {.version = PNG_VERSION};
  pthread_once(&once, load_png);
  if (!has_png) return mscrt_fail(MSCRT_ENVIRONMENT, "%s: PNG files need %s, which is not there", name, PNG);
  if (!png.begin(&image, bytes, num)) return mscrt_fail(MSCRT_INPUT, "%s: %s", name, image.message);
  image.format = channels == 3 ? PNG_RGB : PNG_GRAY;
  mscrt_status *s = make_raster(name, image.height, image.width, channels, out);
  /* what is transparent shows black */
  if (!s && !png.finish(&image, "\0\0\0", out->pixel, 0, NULL))
    s = mscrt_fail(MSCRT_INPUT, "%s: %s", name, image.message);
  png.free(&image);
  return s;
}

static mscrt_status *decode_jpeg(const char *name, const void *bytes, size_t num, int channels, raster *out) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  int width, height, subsampling, colours;
  pthread_once(&once, load_jpeg);
  if (!has_jpeg) return mscrt_fail(MSCRT_ENVIRONMENT, "%s: JPEG files need %s, which is not there", name, JPEG);
  void *handle = jpeg.open();
  if (!handle) return mscrt_fail(MSCRT_NO_MEMORY, "%s: out of memory", name);
  mscrt_status *s = NULL;
  if (jpeg.header(handle, bytes, num, &width, &height, &subsampling, &colours))
    s = mscrt_fail(MSCRT_INPUT, "%s: %s", name, jpeg.error(handle));
  if (!s) s = make_raster(name, height, width, channels, out);
  if (!s && jpeg.decode(handle, bytes, num, out->pixel, width, 0, height, channels == 3 ? JPEG_RGB : JPEG_GRAY, 0))
    s = mscrt_fail(MSCRT_INPUT, "%s: %s", name, jpeg.error(handle));
  jpeg.close(handle);
  return s;
}

/* ---- sizes ---- */

/* Pixel (y, x), colour c, of what lies between fractional places: the mean over the area. */
static double mean_of_area(const raster *r, int channels, int c, double y0, double y1, double x0, double x1) {
  double sum = 0, area = 0;
  for (int64_t y = (int64_t)y0; y < r->height && (double)y < y1; y++) {
    double tall = fmin(y1, (double)y + 1) - fmax(y0, (double)y);
    for (int64_t x = (int64_t)x0; x < r->width && (double)x < x1; x++) {
      double part = tall * (fmin(x1, (double)x + 1) - fmax(x0, (double)x));
      sum += part * r->pixel[(y * r->width + x) * channels + c], area += part;
    }
  }
  return area > 0 ? sum / area : 0;
}

static double pixel_at(const raster *r, int channels, int c, int64_t y, int64_t x) {
  y = y < 0 ? 0 : y >= r->height ? r->height - 1 : y;
  x = x < 0 ? 0 : x >= r->width ? r->width - 1 : x;
  return r->pixel[(y * r->width + x) * channels + c];
}

static double between_pixels(const raster *r, int channels, int c, double y, double x) {
  int64_t iy = (int64_t)floor(y), ix = (int64_t)floor(x);
  double fy = y - (double)iy, fx = x - (double)ix;
  double top = pixel_at(r, channels, c, iy, ix) * (1 - fx) + pixel_at(r, channels, c, iy, ix + 1) * fx,
         bottom = pixel_at(r, channels, c, iy + 1, ix) * (1 - fx) + pixel_at(r, channels, c, iy + 1, ix + 1) * fx;
  return top * (1 - fy) + bottom * fy;
}

static void fit_picture(const raster *r, const mscrt_picture *p, uint8_t *out) {
  double step = fmin((double)r->height / (double)p->height, (double)r->width / (double)p->width),
         top = ((double)r->height - step * (double)p->height) / 2,
         left = ((double)r->width - step * (double)p->width) / 2;
  bool same = r->height == p->height && r->width == p->width;
  for (int64_t y = 0; y < p->height; y++)
    for (int64_t x = 0; x < p->width; x++)
      for (int c = 0; c < p->channels; c++) {
        double y0 = top + step * (double)y, x0 = left + step * (double)x;
        double v = same       ? r->pixel[(y * r->width + x) * p->channels + c]
                   : step > 1 ? mean_of_area(r, p->channels, c, y0, y0 + step, x0, x0 + step)
                              : between_pixels(r, p->channels, c, y0 + step / 2 - 0.5, x0 + step / 2 - 0.5);
        int64_t at = p->channels_first ? (c * p->height + y) * p->width + x : (y * p->width + x) * p->channels + c;
        out[at] = (uint8_t)(v + 0.5);
      }
}

bool mscrt_picture_of(const mscrt_wanted *w, mscrt_picture *out) {
  int64_t shape[MSCRT_MAX_RANK];
  int rank = mscrt_sample_shape(w, shape);
  bool first = rank == 3 && (shape[0] == 1 || shape[0] == 3), last = rank == 3 && (shape[2] == 1 || shape[2] == 3);
  if (rank == 2) *out = (mscrt_picture){shape[0], shape[1], 1, true};
  else if (first) *out = (mscrt_picture){shape[1], shape[2], (int)shape[0], true};
  else if (last) *out = (mscrt_picture){shape[0], shape[1], (int)shape[2], false};
  return (rank == 2 || first || last) && out->height > 0 && out->width > 0;
}

mscrt_status *mscrt_picture_decode(const char *name, const void *bytes, size_t num, const mscrt_picture *p,
                                   uint8_t *out) {
  raster r = {0};
  mscrt_status *s = is_png(bytes, num)    ? decode_png(name, bytes, num, p->channels, &r)
                    : is_jpeg(bytes, num) ? decode_jpeg(name, bytes, num, p->channels, &r)
                                          : mscrt_fail(MSCRT_INPUT, "%s: neither PNG nor JPEG", name);
  if (!s) fit_picture(&r, p, out);
  free(r.pixel);
  return s;
}
