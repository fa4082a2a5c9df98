"""What the reference says, counted: shapes, formats and errors of each name, and an example."""

from __future__ import annotations

import re
from typing import Final

from tools.reference import samples
from tools.reference.facts import facts
from tools.reference.listing import Entry, homes

# Axes in a docstring: (batch, channels, ...), x[rows, columns], 0-d; and errors.
_SHAPES: Final = re.compile(
    r"\(\.\.\.|\([a-z]+(, [a-z/' ]+)*,?( \.\.\.)?\)|\w\[[\w, .*]+\]|\b0-d\b"
)
# Names of whose errors there is nothing to say: modes, states, bases of classes, errors themselves.
QUIET: Final = frozenset(
    """Tensor.train nn.Buffer nn.Module nn.ModuleDict nn.ModuleList nn.QuantisedLinear nn.RNNBase
    nn.RNNCellBase nn.utils.parameters_to_vector nn.utils.prune.is_pruned
    nn.utils.parametrize.cached nn.utils.parametrize.is_parametrized
    nn.utils.parametrize.ParametrizationList
    nn.utils.parametrize.type_before_parametrizations nn.utils.parametrizations.orthogonal
    nn.data.ChainDataset nn.data.Dataset nn.data.get_worker_info nn.data.IterableDataset
    nn.data.load_digits nn.data.Sampler nn.data.WorkerError optim.lr_scheduler.LRScheduler
    optim.swa_utils.AveragedModel optim.swa_utils.update_bn distributions.Distribution
    distributions.ExponentialFamily distributions.identity_transform distributions.kl_divergence
    distributions.register_kl distributions.Transform random.fork_rng random.get_rng_state
    random.initial_seed random.seed random.set_rng_state linalg.LinAlgError
    func.replace_all_batch_norm_modules_ autograd.enable_grad autograd.Function
    autograd.inference_mode autograd.no_grad autograd.set_detect_anomaly autograd.set_grad_enabled
    torpor.DType torpor.dtypes torpor.explore torpor.Generator torpor.get_default_device
    torpor.get_default_dtype torpor.gradient torpor.is_anomaly_enabled torpor.is_grad_enabled
    torpor.RecompileWarning
    array_api.__array_namespace_info__ array_api.logical_not""".split()  # noqa: SIM905
)
_ERRORS: Final = re.compile(r"\w+Error\b|\braises?\b|\ban error\b")


def lacking(entry: Entry) -> list[str]:
    """What is not said of an entry though there is something to say."""
    found = facts(entry)
    said = {
        "shapes": not found.formats or found.shapes or _SHAPES.search(entry.text),
        "errors": found.errors or entry.path in QUIET or _ERRORS.search(entry.text),
        "an example": ">>>" in entry.text or samples.call_of(entry) is not None,
    }
    return [what for what, known in said.items() if not known]


def row(there: list[Entry]) -> tuple[int, ...]:
    """How many there are, take tensors, and say shapes, say errors, and have an example."""
    missing = [lacking(entry) + ["errors"] * (entry.path in QUIET) for entry in there]
    kinds = ("shapes", "errors", "an example")
    said = (sum(what not in one for one in missing) for what in kinds)
    return len(there), sum(bool(facts(entry).formats) for entry in there), *said


def table() -> str:
    """The counts as Markdown, by namespace; other names of one thing count once."""
    spaces: dict[str, list[Entry]] = {}
    for entry in homes().values():
        spaces.setdefault(entry.space, []).append(entry)
    every = [entry for there in spaces.values() for entry in there]
    rows = [(f"`{space}`", *row(there)) for space, there in spaces.items()] + [("all", *row(every))]
    head = (
        "| | names | of tensors, with their formats | say shapes, if any | show errors, or that "
        "none was met | have an example |\n|---|--:|--:|--:|--:|--:|\n"
    )
    return head + "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in rows)
