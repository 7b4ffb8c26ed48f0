/* replay.c: the main of a fuzz target in `ninja test`: every file of the corpus folders given goes through it once. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int replay(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) {
    perror(path);
    exit(1);
  }
  long bytes = ftell(file);
  rewind(file);
  uint8_t *data = malloc(bytes > 0 ? (size_t)bytes : 1); /* of exactly its size, for the sanitizers */
  if (!data || fread(data, 1, (size_t)bytes, file) != (size_t)bytes) exit(1);
  fclose(file);
  fprintf(stderr, "%s\n", path); /* the last one shown is the one that crashed */
  LLVMFuzzerTestOneInput(data, (size_t)bytes);
  free(data);
  return 1;
}

int main(int argc, char **argv) {
  int num = 0;
  for (int i = 1; i < argc; i++) {
    DIR *folder = opendir(argv[i]);
    if (!folder) {
      perror(argv[i]);
      return 1;
    }
    for (struct dirent *e; (e = readdir(folder));) {
      char path[4096];
      snprintf(path, sizeof path, "%s/%s", argv[i], e->d_name);
      if (e->d_name[0] != '.') num += replay(path);
    }
    closedir(folder);
  }
  printf("%d cases\n", num);
  return num ? 0 : 1;
}
