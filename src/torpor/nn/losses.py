"""Losses as functions of the prediction and the target: methods of `Tensor`, where their arguments
are explained.
"""

from __future__ import annotations

from torpor.tensor.namespace import function_of

binary_cross_entropy = function_of("binary_cross_entropy")
binary_cross_entropy_with_logits = function_of("binary_cross_entropy_with_logits")
cross_entropy = function_of("cross_entropy")
huber_loss = function_of("huber_loss")
kl_div = function_of("kl_div")
l1_loss = function_of("l1_loss")
mse_loss = function_of("mse_loss")
nll_loss = function_of("nll_loss")
smooth_l1_loss = function_of("smooth_l1_loss")
