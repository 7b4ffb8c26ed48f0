/* tidy: the training step -> the same without duplicate and unused ops: fold, cse and dce again. */
#include "passes/pass.h"

bool pass_tidy(msc_pass_ctx *pass, msc_module *m) {
  return pass_fold(pass, m) && pass_cse(pass, m) && pass_dce(pass, m);
}
