class Nothing(torch.autograd.Function):
    """Zero, which depends on all that a stage takes. Added to all that it gives, it lets torch's split backward passes do what they
    need: they ask every input for a gradient, and leave out parameters of which no way to the results meets one from an input."""

    @staticmethod
    def forward(ctx, *taken):
        ctx.like = [(value.shape, value.dtype) for value in taken]
        return taken[0].new_zeros(())

    @staticmethod
    def backward(ctx, gradient):
        return tuple(gradient.new_zeros(shape, dtype=dtype) for shape, dtype in ctx.like)


class Carrier(torch.nn.Module):
    """A stage for torch's schedules, which want a gradient of all that crosses a boundary: integers travel as doubles, which
    hold them exactly up to 2^53, and get the gradient zero."""

    def __init__(self, stage, is_last):
        super().__init__()
        self.stage, self.is_last = stage, is_last

    def forward(self, *carried):
        values = [v if v.dtype == t else v.detach().to(t) for v, t in zip(carried, self.stage.types, strict=True)]
        made = list(self.stage(*values))
        if not self.is_last:
            made = [value if value.is_floating_point() else value.double() for value in made]
        taken = [value for value in carried if value.requires_grad]
        if taken:
            nothing = Nothing.apply(*taken)
            is_learned = [value.requires_grad or not self.is_last for value in made]
            made = [value + nothing.to(value.dtype) if learned else value for value, learned in zip(made, is_learned)]
        return tuple(made)


def ranks():
    """The rank that runs every stage: the order's, or one for each."""
    return [planned.get("rank", index) for index, planned in enumerate(PLAN["stages"])]


def pipeline(stages, index, device, group=None):
    """A stage for the schedules of torch.distributed.pipelining; `group` is for all but the default group."""
    from torch.distributed.pipelining import PipelineStage

    class OfRank(PipelineStage):
        def _get_init_p2p_neighbors_ops(self):
            # Neighbours on one rank hand over without sending; nothing connects it to itself under gloo.
            own = torch.distributed.get_rank()
            return [operation for operation in super()._get_init_p2p_neighbors_ops() if operation.peer != own]

    stage = Carrier(stages[index], index == len(stages) - 1).to(device)
    return OfRank(stage, index, len(stages), torch.device(device), group=group)


def scheduled(stages, rank, device, micro_batches, loss, group=None):
    """What one rank runs: the order that was exported with the plan, or 1F1B where there is none."""
    import tempfile

    from torch.distributed.pipelining import Schedule1F1B, schedules

    own = [pipeline(stages, index, device, group) for index, of in enumerate(ranks()) if of == rank]
    if "order" not in PLAN:
        return Schedule1F1B(own[0], micro_batches, loss_fn=loss)
    if micro_batches != PLAN["micro_batches"]:
        raise Fault(f"the order is one of {PLAN['micro_batches']} micro-batches, not of {micro_batches}")
    # What runs an order is not official yet, and reads nothing but files.
    schedule = schedules._PipelineScheduleRuntime(own, micro_batches, loss_fn=loss)
    with tempfile.TemporaryDirectory() as folder:
        order = pathlib.Path(folder, "order.csv")
        order.write_text("\n".join(PLAN["order"]) + "\n")
        schedule._load_csv(str(order), format="compute_only")
    return schedule


def iteration(schedule, rank, inputs, micro_batches):
    """Runs one iteration; `inputs` are those of all micro-batches, one after the other. Returns the losses, on the last stage."""
    is_first, is_last = rank == ranks()[0], rank == ranks()[-1]
    losses = []
    target = {"target": torch.zeros(micro_batches, device=inputs[0].device), "losses": losses} if is_last else {}
    schedule.step(*(inputs if is_first else ()), **target)
    return [one.detach() for one in losses]


def square(outputs, _=None):
    """The mean square of all outputs, as a loss."""
    return sum(tensor.square().mean() for tensor in tree_leaves(outputs))


def whole(model, inputs, flat, micro_batches):
    """The losses of the unsplit model for the same micro-batches; the gradients of their mean are left in its parameters."""
    args, kwargs = arguments(inputs)
    losses = []
    for own in zip(*(tensor.tensor_split(micro_batches) for tensor in flat)):
        outputs = model(*own[: len(args)], **dict(zip(kwargs, own[len(args) :])))
        one = square([leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)])
        (one / micro_batches).backward()
        losses.append(one.detach())
    return losses


def run_pipeline(model, inputs, micro_batches, tolerance=None):
    """One training iteration over the processes that torchrun started: equal micro-batches, mean square as loss. With a
    tolerance, gradients are compared with those of the whole model."""
    import os

    import torch.distributed

    if "gpus" in PLAN:
        # The plan numbers unlike GPUs as nvidia-smi does; CUDA would put the fastest first.
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    cuda = torch.cuda.is_available() and PLAN.get("device") != "cpu"
    torch.distributed.init_process_group("nccl" if cuda else "gloo")
    rank = torch.distributed.get_rank()
    gpu = PLAN["gpus"][rank] if "gpus" in PLAN else rank
    device = torch.device("cuda", gpu % torch.cuda.device_count()) if cuda else torch.device("cpu")
    stages = split(model, inputs, True)
    processes = max(ranks()) + 1
    if torch.distributed.get_world_size() != processes:
        count = f"{len(stages)} stages" + ("" if processes == len(stages) else f" on {processes} devices")
        raise Fault(f"the plan has {count}; start torchrun with --nproc-per-node {processes}")
    schedule = scheduled(stages, rank, device, micro_batches, square)
    flat = [leaf.repeat(micro_batches, *[1] * (leaf.dim() - 1)).to(device) for leaf in tree_leaves(arguments(inputs))]
    losses = iteration(schedule, rank, flat, micro_batches)
    counted = sum_copies(stages, rank)
    own = {parameter: parameter.grad for index, of in enumerate(ranks()) if of == rank for parameter in stages[index].parameters()}
    norms = (grad.square().sum() for parameter, grad in own.items() if grad is not None and id(parameter) not in counted)
    total = sum(norms, torch.zeros((), device=device))
    torch.distributed.all_reduce(total)
    if losses:
        print(
            f"loss {float(torch.stack(losses).mean()):.6g}, norm of all gradients {float(total.sqrt()):.6g}, over "
            f"{micro_batches} micro-batches in {len(stages)} stages"
        )
    if tolerance is not None:
        compare(model, inputs, flat, micro_batches, own, tolerance)
    # A rank that leaves while another still sends to it would end both.
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def sum_copies(stages, rank):
    """Sums the gradients of parameters of which several ranks hold a copy; those that a rank before this one holds as well, by identity."""
    holders = {}
    for index, of in enumerate(ranks()):
        for parameter in stages[index].parameters():
            holders.setdefault(id(parameter), (parameter, []))[1].append(of)
    counted = set()
    # Every rank knows all stages, and takes part in making every group.
    for parameter, held in holders.values():
        held = sorted(set(held))
        if len(held) > 1 and parameter.requires_grad:
            group = torch.distributed.new_group(held)
            if rank in held:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                torch.distributed.all_reduce(parameter.grad, group=group)
                counted.update({id(parameter)} if rank > held[0] else ())
    return counted


def compare(model, inputs, flat, micro_batches, own, tolerance):
    """Holds the gradients of one rank against those of the whole model, which every rank computes for itself."""
    model.to(flat[0].device).zero_grad(set_to_none=True)
    whole(model, inputs, flat, micro_batches)
    pairs = [(parameter.grad, grad) for parameter, grad in own.items()]
    if any((one is None) != (other is None) for one, other in pairs):
        raise Fault("the pipeline has gradients of other parameters than the whole model")
    scale = max((float(one.abs().max()) for one, _ in pairs if one is not None), default=0.0) or 1.0
    worst = max((float((one - other).abs().max()) for one, other in pairs if one is not None), default=0.0)
    difference = torch.tensor(worst / scale, device=flat[0].device)
    torch.distributed.all_reduce(difference, torch.distributed.ReduceOp.MAX)
    if torch.distributed.get_rank() == ranks()[-1]:
        print(f"largest relative difference of gradients to the whole model: {float(difference):.3g}")
    if not float(difference) <= tolerance:
        raise Fault(f"gradients differ from those of the whole model by more than {tolerance:g}; compare with dropout 0")
