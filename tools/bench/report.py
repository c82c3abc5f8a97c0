"""Prints the targets with what a benchmark run measured, and where the training step's time goes.

    python3 tools/bench/report.py build/bench.json
"""

import json
import sys

# (what, benchmark, counter, limit, whether more is better, unit)
TARGETS = [
    ("training step fp32 / its products", "training_step/fp32", "ratio", 1.25, False, "x"),
    ("training step bf16 / its products", "training_step/bf16", "ratio", 1.6, False, "x"),
    ("2 ranks of schedule limit, fp32", "two_ranks/fp32", "of_schedule_limit", 0.95, True, ""),
    ("2 ranks of schedule limit, bf16", "two_ranks/bf16", "of_schedule_limit", 0.95, True, ""),
    ("2 ranks, measured - simulated, fp32", "two_ranks/fp32", "measured_over_predicted_minus_1",
     0.03, False, ""),
    ("2 ranks, measured - simulated, bf16", "two_ranks/bf16", "measured_over_predicted_minus_1",
     0.03, False, ""),
    ("4 sleeping ranks, measured - simulated", "four_sleeping_ranks",
     "measured_over_predicted_minus_1", 0.03, False, ""),
    ("4 sleeping ranks, measured - stated sleeps", "four_sleeping_ranks",
     "measured_over_stated_minus_1", 0.03, False, ""),
    ("CPU per action, P=4 M=64, static", "empty_layers/4_ranks_static", "cpu_us_per_action", 5,
     False, "us"),
    ("wall per action and rank, static", "empty_layers/4_ranks_static",
     "wall_us_per_action_and_rank", 6, False, "us"),
    ("CPU per action, P=4 M=64, greedy", "empty_layers/4_ranks_greedy", "cpu_us_per_action", 5,
     False, "us"),
    ("wall per action and rank, greedy", "empty_layers/4_ranks_greedy",
     "wall_us_per_action_and_rank", 6, False, "us"),
    ("allocations per step, data plane", "data_plane_allocations", "per_step_data_plane", 0,
     False, ""),
    ("allocations per step, own kernels", "kernel_allocations/fp32", "per_step_own_code", 0,
     False, ""),
    ("allocations per matmul, oneDNN", "kernel_allocations/fp32", "per_matmul", 0, False, ""),
    ("resident memory, bytes per step", "flat_memory", "rss_slope_bytes_per_step", 1000, False,
     "B"),
    ("activations within their bound", "empty_layers/4_ranks_static", "activations_within_bound",
     1, True, ""),
    ("schedules, 1 M compute actions, all phases", "schedule/both", "cpu_seconds_all", 1, False,
     "s"),
    ("schedules, their simulation alone", "schedule/both", "cpu_seconds_simulate", 0.3, False, "s"),
    ("schedules, peak bytes per action", "schedule/memory", "peak_bytes_per_action", 64, False,
     "B"),
]


def load(path):
    with open(path, encoding="utf-8") as file:
        entries = json.load(file)["benchmarks"]
    by_name = {}
    for entry in entries:
        name = entry["run_name"] if "run_name" in entry else entry["name"]
        parts = [part for part in name.split("/")
                 if not part.startswith("iterations:") and part != "manual_time"]
        by_name["/".join(parts)] = entry
    return by_name


def print_targets(by_name):
    print(f"{'what':<44} {'target':>10} {'measured':>10}  met")
    for what, benchmark, counter, limit, more, unit in TARGETS:
        entry = by_name.get(benchmark)
        if entry is None:
            continue
        value = entry[counter]
        good = value >= limit if more else abs(value) <= limit
        sign = ">=" if more else "<="
        print(f"{what:<44} {sign + f'{limit:g}' + unit:>10} {value:>10.4g}  "
              f"{'yes' if good else 'NO'}")


def print_library(by_name):
    rows = [(name.split("/")[1:], entry) for name, entry in by_name.items()
            if name.startswith("library/")]
    if rows:
        print(f"\n{'schedule':<20} {'layout':<18} {'step ms':>10} {'simulated':>10} {'differs':>8} "
              f"{'bubble global':>14}")
    for (schedule, layout), entry in sorted(rows, key=lambda row: row[0][1]):
        print(f"{schedule:<20} {layout:<18} {1e3 * entry['step_seconds']:>10.1f} "
              f"{1e3 * entry['step_seconds_predicted']:>10.1f} "
              f"{100 * entry['measured_over_predicted_minus_1']:>+7.1f}% "
              f"{100 * entry['bubble_global']:>13.1f}%")


def print_operators(by_name):
    for precision in ("fp32", "bf16"):
        entry = by_name.get(f"training_step/{precision}")
        if entry is None:
            continue
        alone = {name: value for name, value in entry.items() if name.startswith("ms products")}
        parts = {name[3:]: value for name, value in entry.items()
                 if name.startswith("ms ") and name not in alone}
        total = sum(parts.values())
        print(f"\ntraining step {precision}: {total:.0f} ms, oneDNN alone "
              f"{entry['gflops_onednn']:.0f} GFLOP/s, products in the step "
              f"{entry['gflops_products_in_step']:.0f} GFLOP/s")
        for name, value in sorted(parts.items(), key=lambda part: -part[1]):
            print(f"  {name:<28} {value:9.2f} ms {100 * value / total:6.2f} %")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    by_name = load(sys.argv[1])
    print_targets(by_name)
    print_library(by_name)
    print_operators(by_name)


if __name__ == "__main__":
    main()
