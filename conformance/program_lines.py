"""What lines of random programs may be (see `conformance.programs`)."""

# What a line of a program may be. x, y, z are tensors of the formats asked for: f float, i integer,
# b bool, n all but bool, a any; `~` before a letter asks for one whose numbers were not rounded,
# since the line has jumps. d is an axis, k a small number; FORMAT is one.
LINES = """
f: x.exp() ; x.sin() ; x.cos() ; x.tanh() ; x.sqrt() ; x.rsqrt() ; x.sigmoid() ; x.erf() ; x.log()
f: x.abs() ; x.square() ; x.reciprocal() ; x.log1p() ; x.expm1() ; x.atan() ; x.exp2() ; x.log2()
f: F.relu(x) ; F.gelu(x) ; F.silu(x) ; F.softplus(x) ; F.elu(x) ; F.leaky_relu(x, 0.1) ; F.mish(x)
f: F.softmax(x, d) ; F.log_softmax(x, d) ; x.logsumexp(d) ; x.mean(d) ; x.var(d) ; x.std(d)
f: x.norm()
f: x.clamp(-1.5, 2.5) ; x.nan_to_num(0.5) ; x * 0.37 + 1.25 ; 1.5 - x ; x / 3 ; x.lerp(x * 2, 0.25)
~f: x.floor() ; x.ceil() ; x.trunc() ; x.round() ; x.nan_to_num().sign() ; x.frac() ; x.isnan()
~f: x.isinf()
~f: x.isfinite() ; x.signbit() ; x.nan_to_num(7.0) ; x.msort() ; x.argsort(d, stable=True)
n: -x ; x.abs() ; x + k ; x * k ; x.sum(d) ; x.prod(d) ; x.cumsum(d) ; x.square() ; x.diff(dim=d)
~n: x.sort(d, stable=True).values ; x.argmax(d) ; x.argmin(d) ; x.amax(d) ; x.amin(d)
~n: x.cummax(d)[0]
~n: x.detach().topk(1, d).values ; x.unique() ; x.max(d).indices ; x.min(d).values ; x > k ; x == k
~n: x <= k
a: x.sum() ; x.any() ; x.all() ; x.flip(d) ; x.roll(k, d) ; x.mT ; x.unsqueeze(d) ; x.flatten()
a: x.reshape(-1) ; x[..., ::2] ; x[..., 1:] ; x[:k] ; x[-1:] ; x.tril() ; x.triu(1) ; x.diagonal()
a: x.repeat_interleave(2, d) ; x.tile(2) ; x.expand(3, *x.shape) ; x.clone() ; x.movedim(0, -1)
a: x.narrow(d, 0, 1) ; x.select(d, 0) ; x.chunk(2, d)[0] ; x.unfold(d, 1, 2).clone() ; x.squeeze()
a: torch.cat([x, x.flip(d)], d) ; torch.stack([x, x], d) ; x.count_nonzero() ; x.count_nonzero(d)
a: x[None] ; x[..., None] ; x[..., -1] ; x[0] ; x.swapaxes(0, -1) ; torch.rot90(x) ; x.ravel()
a: F.pad(x, (k, 1)) ; F.pad(x, (-1, 2)) ; x.bool() ; x.to(torch.float32) ; x.float()
~a: x.to(torch.FORMAT) ; x.nonzero() ; x != x.flip(d) ; torch.where(x == x, 1, 0)
i: x & 5 ; x | 3 ; x ^ 6 ; ~x ; x // 3 ; x % 5 ; x << 1 ; x >> 1 ; x.bitwise_not()
i: (x | 1).gcd(x * 0 + 6)
b: ~x ; x.logical_not() ; x.int() ; x.long() ; x.sum(d) ; x.cumsum(d)
nn: x + y ; x - y ; x * y ; torch.maximum(x, y) ; torch.minimum(x, y) ; x + y * 2
~n~n: x < y ; x == y ; x >= y ; x != y ; torch.maximum(x, y).argmax()
ff: x / y ; torch.atan2(x, y) ; torch.hypot(x, y) ; torch.logaddexp(x, y)
ff: x ** 2 + y ; x.abs() ** y ; torch.fmax(x, y) ; F.mse_loss(x, y) ; F.l1_loss(x, y)
ff: x.addcmul(y, y)
~f~f: torch.copysign(x, y) ; torch.fmod(x, y) ; torch.remainder(x, y) ; torch.floor_divide(x, y)
ii: x & y ; x | y ; x ^ y
bb: x & y ; x | y ; x ^ y ; x == y ; torch.logical_and(x, ~y)
baa: torch.where(x, y, z)
bf: y.masked_fill(x, 0.5) ; torch.where(x, y, 1.5)
ba: y.masked_fill(x, 1)
~a~a: torch.cat([x, y]) ; torch.stack([x, y])
ff: x @ y ; x.mT @ y ; x @ y.mT ; torch.outer(x.flatten(), y.flatten()) ; F.linear(x, y)
ii: x.long() @ y.long().mT
fff: torch.addmm(x, y, z) ; x @ y.mT + z ; F.linear(x, y, z.flatten()) ; torch.addcmul(x, y, z)
fff: torch.baddbmm(x, y, z)
f: F.layer_norm(x, x.shape[-1:]) ; F.max_pool1d(x, 2) ; F.avg_pool1d(x, 2) ; F.normalize(x, dim=d)
f: F.max_pool2d(x, 2, 1) ; F.avg_pool2d(x, 2, padding=1) ; F.conv1d(x[:1], x[:, :1, :1].mT[:1])
f: x.cov()
ff: F.conv1d(x, y) ; F.conv2d(x, y, padding=1) ; F.conv_transpose1d(x, y) ; torch.cdist(x, y)
ff: torch.einsum("ij,kj->ik", x, y) ; torch.einsum("...i,...i->...", x, y) ; torch.kron(x, y)
f: torch.einsum("ii->i", x) ; torch.einsum("...ij->...ji", x) ; torch.trace(x) ; x.logcumsumexp(d)
f: F.interpolate(x, scale_factor=2) ; F.scaled_dot_product_attention(x, x, x) ; x.median()
f: x.cumprod(d)
ai: x[y.long() % len(x)].clone() ; x.index_select(0, y.long().flatten() % len(x))
ai: x.take(y.long() % x.numel())
ai: torch.take_along_dim(x, y.long() % x.shape[0], 0) ; x.gather(d, y.long() % 1)
ai: F.embedding(y.long() % len(x), x)
ai: x[..., y.long() % x.shape[-1]].clone() ; x[y.flatten()[0].long() % len(x)].clone()
fi: F.cross_entropy(x, y.long() % x.shape[1]) ; F.nll_loss(x, y.long() % x.shape[1])
fif: x.index_add(0, y.long().flatten() % len(x), z) ; x.scatter_add(0, y.long() % len(x), z)
"""
MASKED = """
ab: x[y]
"""  # of a size that a jit cannot know
WRITES = """
f: x.mul_(0.5) ; x.add_(1.25) ; x.neg_() ; x[..., :2].mul_(2) ; x[-1].add_(1) ; x.t().mul_(0.5)
f: x.zero_() ; x[0] = 0.5 ; x[..., 0] = 2.0 ; x[..., ::2] = -1.0 ; x.clamp_(-2, 2)
f: x[:1].fill_(0.25)
n: x += k ; x[-1:] += k ; x[..., 1:] -= 1 ; x[..., -1] = k ; x[:1] *= 2 ; x.fill_(k) ; x.abs_()
a: x.fill_(1) ; x.copy_(x.flip(0)) ; x[0] = x[-1] ; x[...] = x.flip(-1).clone() ; x[..., 0] = 1
nn: x += y ; x *= y ; x.copy_(y) ; x[:1] = y[:1] ; x[..., 0] = y[..., 0] ; x[:] = y ; x -= y
ni: x[y.long().flatten()[:1] % len(x)] = k ; x.index_fill_(0, y.long().flatten()[:2] % len(x), 1)
ab: x[y] = 1 ; x.masked_fill_(y, 1)
nb: x[y] *= 2
fif: x.index_add_(0, y.long().flatten() % len(x), z) ; x.scatter_(0, y.long()[:1] % len(x), 0.5)
"""
# The beginnings of what gives numbers that are as exact as those it takes.
EXACT = """
x.flip x.roll x.mT x.unsqueeze x.flatten x.reshape x[ x.tril x.triu x.diagonal x.repeat x.tile
x.expand x.clone x.movedim x.narrow x.select x.chunk x.unfold x.squeeze x.T torch.cat torch.stack
-x x.abs torch.where x.swapaxes torch.rot90 x.ravel F.pad x.index_select x.take torch.take_along
x.gather y.masked_fill torch.maximum torch.minimum F.relu x.sort x.msort x.amax x.amin x.bool
x.any x.all
""".split()  # noqa: SIM905 (a table that is read)
# What adds or multiplies numbers up, so that the order decides which of extreme ones overflow, or
# whether a product is rounded before a sum.
SUMMED = """
sum mean var std norm F. @ torch.add einsum cov trace kron outer cdist lerp badd addcmul 0.37
""".split()  # noqa: SIM905 (a table that is read)
