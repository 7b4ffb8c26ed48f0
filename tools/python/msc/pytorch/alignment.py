"""torch.ctc_loss in arithmetic that can be exported: PyTorch's own cannot, since the size of what it keeps depends on
the lengths' values."""

import torch

_NEVER = -1e30  # the logarithm of a probability of zero, with a gradient


def _padded(targets, lengths, chosen):
    """Targets [batch, most letters] of targets that stand one behind the other."""
    if chosen is not None:
        x, mask = (v.broadcast_to(torch.broadcast_shapes(*(v.shape for v in chosen))) for v in chosen)
        most = x.shape[-1]
        order = torch.argsort(mask.flatten().logical_not().to(torch.int32), stable=True)
        targets = x.flatten()[order]
    else:
        most = targets.shape[0]
    places = (lengths.cumsum(0) - lengths)[:, None] + torch.arange(most)
    return targets[places.clamp(max=targets.shape[0] - 1)]


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False, chosen=None):
    """The same as torch.ctc_loss.  `chosen`: (x, mask) whose masked_select gave the targets."""
    if log_probs.ndim == 2:
        log_probs = log_probs[:, None]
    input_lengths, target_lengths = (
        torch.as_tensor(v).reshape(-1).to(torch.int64) for v in (input_lengths, target_lengths)
    )
    targets = targets.to(torch.int64)
    if targets.ndim == 1 and (chosen is not None or log_probs.shape[1] > 1):
        targets = _padded(targets, target_lengths, chosen)
    targets = targets.reshape(log_probs.shape[1], -1).clamp(0, log_probs.shape[2] - 1)
    # letters with a blank before, between and behind them
    blanks = torch.full_like(targets, blank)
    path = torch.cat([torch.stack([blanks, targets], -1).flatten(1), blanks[:, :1]], 1)
    skips = torch.nn.functional.pad((path[:, 2:] != blank) & (path[:, 2:] != path[:, :-2]), (2, 0))
    each = log_probs.gather(2, path.expand(log_probs.shape[0], -1, -1))
    start = torch.arange(path.shape[1]) < 2
    alpha = torch.where(start, each[0], _NEVER)
    for t in range(1, log_probs.shape[0]):
        one, two = (torch.nn.functional.pad(alpha[:, :-n], (n, 0), value=_NEVER) for n in (1, 2))
        after = torch.logsumexp(torch.stack([alpha, one, torch.where(skips, two, _NEVER)]), 0) + each[t]
        alpha = torch.where(t < input_lengths[:, None], after, alpha)
    last = 2 * target_lengths[:, None]
    ends = [alpha.gather(1, last), alpha.gather(1, (last - 1).clamp(min=0))]
    ends[1] = torch.where(last > 0, ends[1], _NEVER)
    loss = -torch.logsumexp(torch.cat(ends, 1), 1)
    loss = torch.where(loss > -_NEVER / 10, 0.0 if zero_infinity else torch.inf, loss)
    # of more letters than there are places for nothing is known
    loss = torch.where(target_lengths > targets.shape[1], torch.nan, loss)
    if reduction == 1:
        return (loss / target_lengths.clamp(min=1)).mean()
    return loss.sum() if reduction == 2 else loss
