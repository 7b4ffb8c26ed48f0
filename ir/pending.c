/* pending.c: weak stand-ins for functions named in op.def whose files have not landed; removed when they have. */
#include "ir/op_table.h"
#define WEAK __attribute__((weak))
WEAK bool rule_absolute_error(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_absolute_error has not landed"); }
WEAK bool rule_axis(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_axis has not landed"); }
WEAK bool rule_broadcast(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_broadcast has not landed"); }
WEAK bool rule_cast(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_cast has not landed"); }
WEAK bool rule_concat(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_concat has not landed"); }
WEAK bool rule_cross_entropy(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_cross_entropy has not landed"); }
WEAK bool rule_cross_entropy_grad(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_cross_entropy_grad has not landed"); }
WEAK bool rule_gather(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_gather has not landed"); }
WEAK bool rule_matmul(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_matmul has not landed"); }
WEAK bool rule_one_hot(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_one_hot has not landed"); }
WEAK bool rule_pad(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_pad has not landed"); }
WEAK bool rule_reduce(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_reduce has not landed"); }
WEAK bool rule_reshape(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_reshape has not landed"); }
WEAK bool rule_scatter_add(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_scatter_add has not landed"); }
WEAK bool rule_slice(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_slice has not landed"); }
WEAK bool rule_split(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_split has not landed"); }
WEAK bool rule_transpose(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_transpose has not landed"); }
WEAK bool rule_update(const msc_op *op, msc_rule *rule) { (void)rule; return msc_op_error(op, MSC_E_UNSUPPORTED, "rule_update has not landed"); }
WEAK bool grad_abs(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_abs has not landed"); }
WEAK bool grad_add(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_add has not landed"); }
WEAK bool grad_all_gather(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_all_gather has not landed"); }
WEAK bool grad_all_reduce(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_all_reduce has not landed"); }
WEAK bool grad_all_to_all(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_all_to_all has not landed"); }
WEAK bool grad_batch_matmul(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_batch_matmul has not landed"); }
WEAK bool grad_broadcast(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_broadcast has not landed"); }
WEAK bool grad_broadcast_to(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_broadcast_to has not landed"); }
WEAK bool grad_cast(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_cast has not landed"); }
WEAK bool grad_concat(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_concat has not landed"); }
WEAK bool grad_cross_entropy(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_cross_entropy has not landed"); }
WEAK bool grad_div(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_div has not landed"); }
WEAK bool grad_erf(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_erf has not landed"); }
WEAK bool grad_exp(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_exp has not landed"); }
WEAK bool grad_gather(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_gather has not landed"); }
WEAK bool grad_gelu(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_gelu has not landed"); }
WEAK bool grad_log(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_log has not landed"); }
WEAK bool grad_log_softmax(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_log_softmax has not landed"); }
WEAK bool grad_matmul(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_matmul has not landed"); }
WEAK bool grad_max(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_max has not landed"); }
WEAK bool grad_min(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_min has not landed"); }
WEAK bool grad_mul(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_mul has not landed"); }
WEAK bool grad_neg(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_neg has not landed"); }
WEAK bool grad_none(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_none has not landed"); }
WEAK bool grad_pad(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_pad has not landed"); }
WEAK bool grad_permute(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_permute has not landed"); }
WEAK bool grad_pow(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_pow has not landed"); }
WEAK bool grad_recv(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_recv has not landed"); }
WEAK bool grad_reduce_max(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_reduce_max has not landed"); }
WEAK bool grad_reduce_mean(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_reduce_mean has not landed"); }
WEAK bool grad_reduce_scatter(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_reduce_scatter has not landed"); }
WEAK bool grad_reduce_sum(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_reduce_sum has not landed"); }
WEAK bool grad_relu(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_relu has not landed"); }
WEAK bool grad_reshape(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_reshape has not landed"); }
WEAK bool grad_rsqrt(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_rsqrt has not landed"); }
WEAK bool grad_scatter_add(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_scatter_add has not landed"); }
WEAK bool grad_select(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_select has not landed"); }
WEAK bool grad_send(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_send has not landed"); }
WEAK bool grad_sigmoid(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_sigmoid has not landed"); }
WEAK bool grad_silu(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_silu has not landed"); }
WEAK bool grad_slice(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_slice has not landed"); }
WEAK bool grad_softmax(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_softmax has not landed"); }
WEAK bool grad_split(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_split has not landed"); }
WEAK bool grad_sqrt(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_sqrt has not landed"); }
WEAK bool grad_sub(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_sub has not landed"); }
WEAK bool grad_tanh(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_tanh has not landed"); }
WEAK bool grad_transpose(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_transpose has not landed"); }
WEAK bool grad_zero(msc_grad_ctx *g, msc_op *op) { (void)g; return msc_op_error(op, MSC_E_UNSUPPORTED, "grad_zero has not landed"); }
