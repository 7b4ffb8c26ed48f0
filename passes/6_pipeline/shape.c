/* shape.c: the number of stages and chunks, and the sections of the program, from the configuration. */
#include "passes/6_pipeline/pipeline.h"

msc_pipeline_shape msc_pipeline_shape_of(const msc_config *config, msc_arena *arena) {
  msc_pipeline_shape s = {.stages = (int)msc_config_int(config, MSC_KEY_pipeline_stages),
                          .chunks = (int)msc_config_int(config, MSC_KEY_pipeline_chunks)};
  msc_schedule_of_name(msc_config_text(config, MSC_KEY_pipeline_scheduler), &s.kind);
  s.joined = s.stages <= 1;
  if (s.joined) s.chunks = 1;
  s.splits_backward = !s.joined && msc_schedule_is_split(s.kind);
  s.place = msc_new_array(arena, int, s.stages * s.chunks);
  msc_schedule_place(s.kind, s.stages, s.chunks, s.place);
  return s;
}

int msc_chunk_of(const msc_pipeline_shape *s, int virtual_stage) {
  int chunk = 0;
  for (int v = 0; v < virtual_stage; v++) chunk += s->place[v] == s->place[virtual_stage];
  return chunk;
}
