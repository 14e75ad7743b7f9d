"""Provably optimal pipeline plans for deep neural networks, and the gaps of published heuristics.

    plan = stagecut.solve("model.onnx", stages=4, cluster="h100", time_limit=10)

===========================  ==================================================================
to                           call
===========================  ==================================================================
find a plan and prove it     :func:`solve`
plan a published model       :func:`plan`: from its ``config.json`` to flags
run methods side by side     :func:`compare`; functions of one's own among them
know how good a plan can be  :func:`bound`
see what bandwidth is worth  :func:`what_if`; memory, stages and devices too
cost stages of one's own     :func:`evaluate`
check a plan                 :func:`check`, :meth:`Plan.check`
run a plan event by event    :func:`simulate`, :meth:`Plan.simulate`
write it for a framework     :meth:`Plan.export`
run many methods on many     :class:`Study`
read or measure a network    :func:`network`, :func:`profile`, :func:`generate`
write the program            :func:`formulate`
===========================  ==================================================================

The names are those of the command line, which is here too: ``python -m stagecut --help``.
"""

from __future__ import annotations

from . import _program, _stagecut
from ._choice import Choice
from ._comparison import Comparison, Row
from ._errors import (
    Fault,
    Inapplicable,
    Infeasible,
    InputError,
    InternalError,
    Interrupted,
    NoPlan,
    SolverError,
    StagecutError,
    Stop,
    WriteError,
)
from ._network import Cluster, Network, generate, network
from ._options import Problem
from ._plan import Plan, Stage
from ._simulation import Simulation, simulate
from ._solve import (
    Bound,
    Formulated,
    Heuristic,
    PlanProgress,
    Stages,
    WhatIfProgress,
    bound,
    check,
    clusters,
    compare,
    evaluate,
    export,
    formulate,
    methods,
    plan,
    serve,
    solve,
    targets,
    what_if,
)
from ._stagecut import Progress, __version__
from ._study import Study, StudyProgress
from ._torch import profile
from ._verdict import Check, Evaluation, Violation
from ._what_if import WhatIf

# Workers of studies, and what reads ONNX models, are processes of their own.
_stagecut.started_by(_program.words())

__all__ = [
    "Bound",
    "Check",
    "Choice",
    "Cluster",
    "Comparison",
    "Evaluation",
    "Fault",
    "Formulated",
    "Heuristic",
    "Inapplicable",
    "Infeasible",
    "InputError",
    "InternalError",
    "Interrupted",
    "Network",
    "NoPlan",
    "Plan",
    "PlanProgress",
    "Problem",
    "Progress",
    "Row",
    "Simulation",
    "SolverError",
    "Stage",
    "StagecutError",
    "Stages",
    "Stop",
    "Study",
    "StudyProgress",
    "Violation",
    "WhatIf",
    "WhatIfProgress",
    "WriteError",
    "__version__",
    "bound",
    "check",
    "clusters",
    "compare",
    "evaluate",
    "export",
    "formulate",
    "generate",
    "methods",
    "network",
    "plan",
    "profile",
    "serve",
    "simulate",
    "solve",
    "targets",
    "what_if",
]
