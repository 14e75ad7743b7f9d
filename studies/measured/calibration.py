"""Constants from measured plans, by least squares of relative errors, and what they say of plans that they have not seen."""
from dataclasses import replace

from measured_plans import Constants, predict, reduction_s

# Where an efficiency is looked for.
LEAST, MOST = 0.01, 4.0
# Golden section: each step leaves 0.618 of the range of logarithms.
STEPS = 24


def calibrate(folder, plans):
    """The constants that fit these plans best. What is flagged as defective is left out."""
    plans = [plan for plan in plans if plan.is_sound and plan.measured("measured_s")]
    constants = replace(Constants(), **reduction(folder, plans), **memory(folder, plans))
    piped = [plan for plan in plans if len(plan.stages) > 1]
    if piped:
        error = lambda part: squares(folder, piped, replace(constants, pipeline_link=part), "measured")
        constants = replace(constants, pipeline_link=least(error))
    if plans:
        error = lambda part: squares(folder, plans, replace(constants, roofline=part), "peaks")
        constants = replace(constants, roofline=least(error))
    return constants


def cross_validated(folder):
    """For each plan, constants from plans of other layouts: those that differ in replicas alone are left out with it."""
    layouts = dict.fromkeys(plan.layout for plan in folder.plans)
    without = {layout: calibrate(folder, [plan for plan in folder.plans if plan.layout != layout]) for layout in layouts}
    return {plan.name: without[plan.layout] for plan in folder.plans}


def squares(folder, plans, constants, costs):
    errors = (predict(folder, plan, constants, costs).iteration_s / plan.measured("measured_s") - 1 for plan in plans)
    return sum(error * error for error in errors)


def least(error):
    """Where a function with one valley is least, by golden section over logarithms."""
    golden = (5**0.5 - 1) / 2
    low, high = LEAST, MOST
    inside = lambda part: low * (high / low) ** part
    left, right = inside(1 - golden), inside(golden)
    at_left, at_right = error(left), error(right)
    for _ in range(STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = inside(1 - golden)
            at_left = error(left)
        else:
            low, left, at_left = left, right, at_right
            right = inside(golden)
            at_right = error(right)
    return (low * high) ** 0.5


def reduction(folder, plans):
    """Measured reductions are a constant, also without replicas, and the curve's time over an efficiency."""
    column = "measured_gradient_reduction_s"
    points = [(max(reduction_s(folder, plan, stage) for stage in plan.stages), plan.measured(column), 1 / plan.measured("measured_s"))
              for plan in plans if plan.measured(column)]
    if not any(ideal for ideal, *_ in points) or all(ideal for ideal, *_ in points):
        return {}
    constant, factor = line(points)
    return {"iteration_s": max(constant, 0.0), "reduction_link": 1 / factor}


def memory(folder, plans):
    """Measured memory is a reserve and a factor of what is allocated, on the stage that is fullest by both."""
    plans = [plan for plan in plans if plan.measured("measured_memory_bytes")]
    if len(plans) < 2:
        return {}
    own = ("allocator", "reserve")
    points = []
    for plan in plans:
        parts = predict(folder, plan, Constants()).stage_bytes
        measured = plan.measured("measured_memory_bytes")
        points.append((sum(size for name, size in parts.items() if name not in own), measured, 1 / measured))
    reserve, factor = line(points)
    return {"reserve_bytes": reserve, "allocator": factor}


def line(points):
    """The line through (x, y, weight) of least squared weighted errors: its value at 0, and its slope."""
    w = sum(weight**2 for *_, weight in points)
    x = sum(weight**2 * x for x, _, weight in points) / w
    y = sum(weight**2 * y for _, y, weight in points) / w
    spread = sum(weight**2 * (at - x) ** 2 for at, _, weight in points)
    slope = sum(weight**2 * (at - x) * (to - y) for at, to, weight in points) / spread
    return y - slope * x, slope
