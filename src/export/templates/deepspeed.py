"""The partition of a plan for DeepSpeed. Written by `stagecut export --to deepspeed`; needs deepspeed.

    from THIS import PLAN, PlannedPipelineModule

    net = PlannedPipelineModule(layers=layers, loss_fn=loss)   # then deepspeed.initialize(model=net, ...)

`layers` is your list of modules or LayerSpecs, one for each entry of PLAN["modules"], which names the layers of the plan
that it computes; each is called on what the one before returns. DeepSpeed has no option for a partition of one's own,
so the class sets it where DeepSpeed would compute one. Where GPUs differ, import this module before anything that starts
CUDA: it sets which GPU every rank sees, stage after stage, numbered as nvidia-smi does.
"""

import os

from deepspeed.pipe import PipelineModule

PLAN = {}

os.environ.update(PLAN.get("environment", {}))


class PlannedPipelineModule(PipelineModule):
    """A PipelineModule cut where the plan cuts."""

    def __init__(self, layers, **options):
        if len(layers) != len(PLAN["modules"]):
            raise ValueError(f"the plan has {len(PLAN['modules'])} modules, not {len(layers)}: see PLAN['modules']")
        super().__init__(layers=layers, **{"num_stages": len(PLAN["parts"]) - 1, **options})

    def _partition_layers(self, method=None):
        stages = self._topo.get_dim("pipe")
        if stages != len(PLAN["parts"]) - 1:
            raise ValueError(f"the plan has {len(PLAN['parts']) - 1} stages, not {stages}")
        self.parts = list(PLAN["parts"])
        stage = self._topo.get_coord(self.global_rank).pipe
        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])
