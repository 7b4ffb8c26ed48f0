/* run_passes.c: runs the passes between two checkpoints of pass.def, with the options of a compilation, or of a trial
 * that looks ahead from a checkpoint. */
#include "codegen/compile.h"
#include "codegen/emit/emit.h"
#include "ir/abi/clock.h"

msc_pass_options msc_pass_options_of(const msc_compile_options *o) {
  return (msc_pass_options){.verify = o->verify,
                            .config = o->config,
                            .cluster = o->cluster,
                            .time_limit_s = o->time_limit_s,
                            .of_cluster = o->of_cluster,
                            .of_text = o->of_text,
                            .cpu_level = msc_cpu_level(o->target.cpu),
                            .dump_dir = o->dump_dir,
                            .want_text = o->want_text,
                            .flags = o->flags,
                            .user = o->user,
                            .after = o->after,
                            .is_trial = o->is_trial,
                            .remark = o->remark,
                            .before = o->before,
                            .reproducer = o->reproducer};
}

void msc_end_phase(const msc_compile_options *o, const char *name, uint64_t begin) {
  if (o->phase) o->phase(o->user, name, msc_clock_ns() - begin);
}

msc_compile_options msc_trial_of(const msc_compile_options *o) {
  return (msc_compile_options){.config = o->config,
                               .target = o->target,
                               .cluster = o->cluster,
                               .time_limit_s = o->time_limit_s,
                               .of_cluster = o->of_cluster,
                               .verify = MSC_VERIFY_OFF,
                               .user = o->user,
                               .after = o->after,
                               .phase = o->phase,
                               .is_trial = true,
                               .without_code = true};
}

bool msc_compile_stretch(msc_context *ctx, msc_module *m, const msc_compile_options *o, msc_checkpoint from,
                         msc_checkpoint until) {
  msc_pass_options p = msc_pass_options_of(o);
  return msc_run_stretch(ctx, m, &p, from, until);
}
