/* trust.c: ~/.cache/msc/plans/SHA256 says: this user compiled that plan, on the host whose identity stands in the
 * file.  A file's time is when the plan was last compiled or run; of some thousands the oldest go. */
#include "tools/compile/trust.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- SHA-256 (FIPS 180-4): a hash that nobody can make collide ---- */

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void hash_block(uint32_t state[8], const uint8_t block[64]) {
  uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
                  h = state[7];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
           block[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    uint32_t x = w[i - 15], y = w[i - 2];
    w[i] = w[i - 16] + (rotate_right(x, 7) ^ rotate_right(x, 18) ^ x >> 3) + w[i - 7] +
           (rotate_right(y, 17) ^ rotate_right(y, 19) ^ y >> 10);
  }
  for (int i = 0; i < 64; i++) {
    uint32_t t = h + (rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25)) + ((e & f) ^ (~e & g)) +
                 round_constants[i] + w[i];
    uint32_t u = (rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t;
    d = c, c = b, b = a, a = t + u;
  }
  const uint32_t more[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; i++) state[i] += more[i];
}

static void sha256_text(const uint8_t *data, size_t bytes, char out[65]) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t end[128] = {0};
  size_t whole = bytes / 64 * 64, rest = bytes - whole, padded = rest < 56 ? 64 : 128;
  for (size_t at = 0; at < whole; at += 64) hash_block(state, data + at);
  if (rest) memcpy(end, data + whole, rest);
  end[rest] = 0x80;
  for (int i = 0; i < 8; i++) end[padded - 1 - (size_t)i] = (uint8_t)((uint64_t)bytes * 8 >> 8 * i);
  for (size_t at = 0; at < padded; at += 64) hash_block(state, end + at);
  for (int i = 0; i < 8; i++) snprintf(out + 8 * i, 9, "%08x", state[i]);
}

/* ---- the folder ---- */

/* True if only the user can write to the folder. A folder that others can write to proves nothing. */
static bool is_private_folder(const char *path) {
  struct stat st;
  return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
}

bool trust_folder(const char *name, bool make, char out[4096]) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  int n;
  if (cache && *cache == '/') n = snprintf(out, 4096, "%s/msc/%s", cache, name);
  else if (home && *home == '/') n = snprintf(out, 4096, "%s/.cache/msc/%s", home, name);
  else return false;
  if (n < 0 || n > 4000) return false;
  for (char *p = out + 1; make && *p; p++)
    if (*p == '/') {
      *p = 0;
      mkdir(out, 0700);
      *p = '/';
    }
  if (make) mkdir(out, 0700);
  return is_private_folder(out);
}

/* Identifies the host: a home folder may be shared by several. */
static void host_identity(char out[256]) {
  int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, out, 128) : 0;
  if (fd >= 0) close(fd);
  n = n > 0 ? n : 0;
  out[n] = 0;
  out[strcspn(out, "\n")] = 0;
  if (!out[0]) gethostname(out, 255);
  out[255] = 0;
}

static bool note_path(const void *plan, size_t bytes, bool make, char out[4200]) {
  char folder[4096], hash[65];
  if (!trust_folder("plans", make, folder)) return false;
  sha256_text(plan, bytes, hash);
  snprintf(out, 4200, "%s/%s", folder, hash);
  return true;
}

/* ---- dropping old notes ---- */

enum { MOST_NOTES = 4096, KEPT_NOTES = 3072 };

typedef struct {
  char name[65];
  int64_t used_ns;
} note;

static int compare_age(const void *a, const void *b) {
  int64_t x = ((const note *)a)->used_ns, y = ((const note *)b)->used_ns;
  return (x < y) - (x > y);
}

static bool is_note(const char *name) { return strlen(name) == 64 && strspn(name, "0123456789abcdef") == 64; }

static size_t count_notes(DIR *d) {
  size_t num = 0;
  rewinddir(d);
  for (const struct dirent *e; (e = readdir(d));) num += is_note(e->d_name);
  return num;
}

/* Drops the notes that were not used for the longest time. */
static void drop_old_notes(const char *folder) {
  DIR *d = opendir(folder);
  size_t most = d ? count_notes(d) : 0, num = 0;
  note *notes = most > MOST_NOTES ? malloc(most * sizeof *notes) : NULL;
  if (notes) rewinddir(d);
  for (const struct dirent *e; notes && num < most && (e = readdir(d));) {
    struct stat st;
    if (!is_note(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
    memcpy(notes[num].name, e->d_name, sizeof notes[num].name);
    notes[num++].used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
  }
  if (notes) qsort(notes, num, sizeof *notes, compare_age);
  for (size_t i = KEPT_NOTES; i < num; i++) unlinkat(dirfd(d), notes[i].name, 0);
  free(notes);
  if (d) closedir(d);
}

void trust_note(const void *plan, size_t bytes) {
  char path[4200], host[256];
  if (!note_path(plan, bytes, true, path)) return;
  host_identity(host);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  if (write(fd, host, strlen(host)) != (ssize_t)strlen(host)) unlink(path);
  close(fd);
  *strrchr(path, '/') = 0;
  drop_old_notes(path);
}

bool trust_known(const void *plan, size_t bytes) {
  char path[4200], host[256], noted[256];
  struct stat st;
  if (!note_path(plan, bytes, false, path)) return false;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  bool good = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 022) == 0;
  ssize_t n = good ? read(fd, noted, sizeof noted - 1) : -1;
  if (n >= 0) futimens(fd, NULL); /* used now */
  close(fd);
  if (n < 0) return false;
  noted[n] = 0;
  host_identity(host);
  return !strcmp(noted, host);
}
