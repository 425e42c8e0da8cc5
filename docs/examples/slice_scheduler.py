"""A 5G slice scheduler: the SliceScheduler of the DAG Task Standard, carried through.

    python slice_scheduler.py [PROFILE.json]

collect -> predict -> schedule -> evaluate, for one scheduling window of one
second. The state of the network is simulated, everything after it is what a
scheduler does: forecast the traffic of every user (UE), divide the resource
blocks of every cell among the slices, and those of a slice among its users.

The radio is a 20 MHz carrier in band n1 with 15 kHz between subcarriers: 106
physical resource blocks (3GPP TS 38.104, Table 5.3.2-1) in slots of 1 ms.
A "block" below is one resource block in one slot.
"""

# The standard's names: fields Q, CQI and slice, parameters N_UE, N_CELL, ...
# ruff: noqa: A002, D102, N803, N806

from __future__ import annotations

import sys
from math import ceil, log2, sqrt
from typing import Any

import numpy as np

from dagprofiler import DAG, Config, Task, rng

#: Bits for a resource element at CQI 0 (out of range) to 15: TS 38.214, Table 5.2.2.1-2.
EFFICIENCY = np.array(
    [0.0, 0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141,
     2.4063, 2.7305, 3.3223, 3.9023, 4.5234, 5.1152, 5.5547]
)  # fmt: skip

#: 12 subcarriers in 13 of a slot's 14 symbols; one symbol is left to reference signals.
ELEMENTS_PER_BLOCK = 156

#: The window: 1,000 slots of 1 ms.
SLOTS = 1000
WINDOW_S = 1.0

#: Part of a cell's blocks that its slices are guaranteed, in equal shares.
GUARANTEED = 0.5

#: Halvings that search for the water level; 50 leave an error below 1e-9 blocks.
HALVINGS = 50

SITE_DISTANCE_M = 500.0
MIN_DISTANCE_M = 35.0
ANTENNA_ABOVE_UE_M = 23.5
CARRIER_GHZ = 2.1
TRANSMIT_DBM = 46.0
SHADOWING_DB = 6.0
#: Thermal noise of -174 dBm/Hz over 106 blocks of 180 kHz, noise figure 9 dB.
NOISE_DBM = -174.0 + 10 * np.log10(106 * 180e3) + 9.0


def site_positions(n: int) -> np.ndarray:
    """Return the positions of `n` sites of a hexagonal grid, the innermost ones, in metres."""
    reach = ceil(sqrt(n))
    q, r = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1)
    grid = np.column_stack([q + r / 2, r * sqrt(3) / 2])
    inner = np.lexsort((grid[:, 0], grid[:, 1], np.hypot(*grid.T).round(6)))[:n]
    return SITE_DISTANCE_M * grid[inner]


def generate_received_power(n_ue: int, n_cell: int) -> np.ndarray:
    """Return the mean power at each UE from each cell, in dBm, shape ``(n_ue, n_cell)``.

    UEs stand anywhere around their nearest site. The path loss is that of an
    urban macro cell without line of sight, the shadowing log-normal with
    6 dB (TR 38.901, Table 7.4.1-1).
    """
    sites = site_positions(n_cell)
    radius = SITE_DISTANCE_M / sqrt(3) * np.sqrt(rng().random(n_ue))
    angle = 2 * np.pi * rng().random(n_ue)
    offset = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    ue = sites[rng().integers(n_cell, size=n_ue)] + offset
    ground = np.hypot(*(ue[:, None, :] - sites).transpose(2, 0, 1))
    distance = np.hypot(np.maximum(ground, MIN_DISTANCE_M), ANTENNA_ABOVE_UE_M)
    path_loss = 13.54 + 39.08 * np.log10(distance) + 20 * np.log10(CARRIER_GHZ)
    return TRANSMIT_DBM - path_loss - rng().normal(0.0, SHADOWING_DB, (n_ue, n_cell))


def generate_sinr(received_dbm: np.ndarray, cell: np.ndarray) -> np.ndarray:
    """Return the SINR of each UE in dB: Rayleigh fading, all other cells interfere."""
    power = 10 ** (received_dbm / 10) * rng().exponential(size=received_dbm.shape)
    everyone = np.arange(len(cell))
    signal = power[everyone, cell]
    power[everyone, cell] = 0.0
    return 10 * np.log10(signal / (power.sum(axis=1) + 10 ** (NOISE_DBM / 10)))


def generate_cqi(sinr_db: np.ndarray) -> np.ndarray:
    """Return the best CQI, 0 to 15, that each SINR carries.

    A link reaches 0.6 of Shannon's bound (TR 36.942, Annex A).
    """
    reached = 0.6 * np.log2(1 + 10 ** (sinr_db / 10))
    return np.searchsorted(EFFICIENCY, reached, side="right") - 1


def build_features(slice_of_ue: np.ndarray, n_slice: int, k: int) -> np.ndarray:
    """Return the bits that arrived for each UE in each of the last `k` windows.

    From slice to slice the mean grows from 2 to 64 kbit; each window repeats
    0.7 of the one before and adds an exponential surprise.
    """
    mean = np.geomspace(2e3, 64e3, n_slice)[slice_of_ue]
    arrived = np.empty((len(slice_of_ue), k))
    last = mean * rng().exponential(size=len(mean))
    for window in range(k):
        last = 0.7 * last + 0.3 * mean * rng().exponential(size=len(mean))
        arrived[:, window] = last
    return arrived.round()


def generate_queue_lengths(features: np.ndarray) -> np.ndarray:
    """Return the bits waiting for each UE: what was not served of all that arrived."""
    return (rng().random(len(features)) * features.sum(axis=1)).astype(np.int64)


class T0CollectState(Task):
    """Collect the state of the network (simulated)."""

    inputs = []
    outputs = ["Q", "CQI", "SINR", "cell", "slice", "features"]
    config_deps = ["N_UE", "N_CELL", "N_SLICE", "K"]

    @staticmethod
    def estimate_instructions(cfg: Config) -> int:
        N_UE = cfg.N_UE
        return N_UE * 5 + N_UE * 5 * 5 + N_UE * 3

    def compute(self, cfg: Config) -> dict[str, Any]:
        received = generate_received_power(cfg.N_UE, cfg.N_CELL)
        cell = received.argmax(axis=1)
        sinr = generate_sinr(received, cell)
        slice_of_ue = rng().integers(cfg.N_SLICE, size=cfg.N_UE)
        features = build_features(slice_of_ue, cfg.N_SLICE, cfg.K)
        return {
            "Q": generate_queue_lengths(features),
            "CQI": generate_cqi(sinr),
            "SINR": sinr,
            "cell": cell,
            "slice": slice_of_ue,
            "features": features,
        }


class T1Predict(Task):
    """Predict the bits that each UE will want: its queue and what will arrive.

    Ridge regression, one model for each slice, of a window's arrivals on those
    of the K - 1 windows before it and a constant. It is fitted on the last
    window that is known and applied to the next.
    """

    inputs = ["Q", "features", "slice"]
    outputs = ["demand"]
    config_deps = ["N_UE", "N_SLICE", "K"]

    @staticmethod
    def estimate_instructions(cfg: Config) -> int:
        return cfg.N_UE * (2 * cfg.K * cfg.K + 6 * cfg.K) + cfg.N_SLICE * cfg.K**3

    def compute(
        self, Q: np.ndarray, features: np.ndarray, slice: np.ndarray, cfg: Config
    ) -> dict[str, Any]:
        kbit = features / 1e3
        constant = np.ones((len(kbit), 1))
        before = np.hstack([constant, kbit[:, :-1]])
        latest = np.hstack([constant, kbit[:, 1:]])

        gram = np.zeros((cfg.N_SLICE, cfg.K, cfg.K))
        moment = np.zeros((cfg.N_SLICE, cfg.K))
        np.add.at(gram, slice, before[:, :, None] * before[:, None, :])
        np.add.at(moment, slice, before * kbit[:, -1:])
        # The penalty of 1 also keeps the system of an empty slice solvable.
        model = np.linalg.solve(gram + np.eye(cfg.K), moment[:, :, None])[:, :, 0]

        arriving = np.maximum((latest * model[slice]).sum(axis=1), 0.0) * 1e3
        return {"demand": Q + arriving.round().astype(np.int64)}


def bits_per_block(cqi: np.ndarray) -> np.ndarray:
    """Return the bits that one block carries at each CQI."""
    return ELEMENTS_PER_BLOCK * EFFICIENCY[cqi]


def blocks_for(bits: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Return the whole blocks that `bits` take at `rate` bits a block; 0 at rate 0."""
    return np.ceil(np.divide(bits, rate, out=np.zeros(len(bits)), where=rate > 0))


def whole_blocks(shares: np.ndarray, group: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Round `shares` to integers, up or down, so that no group exceeds its total.

    The method of the largest remainder: all are rounded down, and what a
    group has left goes to its largest fractions, a block each.
    """
    whole = np.floor(shares)
    fraction = shares - whole
    left = totals - np.bincount(group, whole, len(totals))
    order = np.lexsort((-fraction, group))
    start = np.searchsorted(group[order], np.arange(len(totals)))
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - start[group[order]]
    return (whole + ((rank < left[group]) & (fraction > 0))).astype(np.int64)


def split_cells(wanted: np.ndarray, blocks: int) -> np.ndarray:
    """Divide the `blocks` of each cell among its slices.

    Parameters
    ----------
    wanted
        Blocks that the predicted demand takes, shape ``(cells, slices)``.
    blocks
        Blocks that a cell has.

    Returns
    -------
    numpy.ndarray of int64
        Of the same shape. No slice gets more than it wants. Each gets that
        much up to its guaranteed share; the rest of the cell is divided in
        proportion to what is still wanted.
    """
    n_cell, n_slice = wanted.shape
    first = np.minimum(wanted, int(GUARANTEED * blocks) // n_slice)
    unmet = wanted - first
    left = blocks - first.sum(axis=1)
    scale = np.minimum(left / np.maximum(unmet.sum(axis=1), 1), 1.0)
    cell = np.repeat(np.arange(n_cell), n_slice)
    extra = whole_blocks((unmet * scale[:, None]).ravel(), cell, left)
    return first.astype(np.int64) + extra.reshape(n_cell, n_slice)


def fill_fairly(
    need: np.ndarray, past: np.ndarray, group: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """Divide each group's blocks among its UEs in a proportionally fair way.

    Maximises the sum of ``log(past + blocks)`` in each group (F. P. Kelly,
    Charging and rate control for elastic traffic, European Transactions on
    Telecommunications 8(1), 1997), which is water-filling: whoever was served
    less lies deeper, and all who still need something rise to one level.

    Parameters
    ----------
    need
        Blocks that each UE can use at most.
    past
        Blocks that its past throughput would take at today's rate.
    group
        The group of each UE.
    totals
        Blocks of each group.
    """
    low = np.zeros(len(totals))
    high = np.zeros(len(totals))
    np.maximum.at(high, group, need + past)
    for _ in range(HALVINGS):
        level = (low + high) / 2
        used = np.bincount(group, np.clip(level[group] - past, 0.0, need), len(totals))
        low = np.where(used <= totals, level, low)
        high = np.where(used <= totals, high, level)
    return whole_blocks(np.clip(low[group] - past, 0.0, need), group, totals)


class T2Schedule(Task):
    """Divide each cell among its slices and each slice among its UEs.

    Slices are cut by predicted demand. Blocks that a slice has beyond its
    present queues stay free for the arrivals that were predicted.
    """

    inputs = ["Q", "CQI", "cell", "slice", "features", "demand"]
    outputs = ["budget", "granted"]
    config_deps = ["N_UE", "N_CELL", "N_SLICE", "K"]

    @staticmethod
    def estimate_instructions(cfg: Config) -> float:
        filling = cfg.N_UE * 8 * HALVINGS
        sorting = cfg.N_UE * log2(cfg.N_UE + 1) * 10
        return cfg.N_UE * (20 + cfg.K) + filling + sorting + cfg.N_CELL * cfg.N_SLICE * 20

    def compute(
        self,
        Q: np.ndarray,
        CQI: np.ndarray,
        cell: np.ndarray,
        slice: np.ndarray,
        features: np.ndarray,
        demand: np.ndarray,
        cfg: Config,
    ) -> dict[str, Any]:
        rate = bits_per_block(CQI)
        group = cell * cfg.N_SLICE + slice
        n_group = cfg.N_CELL * cfg.N_SLICE

        wanted = np.bincount(group, blocks_for(demand, rate), n_group)
        budget = split_cells(wanted.reshape(cfg.N_CELL, cfg.N_SLICE), cfg.N_PRB * SLOTS)

        need = blocks_for(Q, rate)
        served_before = (features.sum(axis=1) - Q) / cfg.K
        granted = fill_fairly(need, blocks_for(served_before, rate), group, budget.ravel())
        return {"budget": budget, "granted": granted}


def jain_index(values: np.ndarray, group: np.ndarray, n_group: int) -> np.ndarray:
    """Return the fairness of each group's values, from 1/n (one has all) to 1 (all equal).

    ``(sum x)^2 / (n sum x^2)``: R. Jain, D.-M. Chiu, W. Hawe, A Quantitative
    Measure of Fairness and Discrimination for Resource Allocation in Shared
    Computer Systems, DEC Technical Report 301, 1984. 1 where nobody has anything.
    """
    total = np.bincount(group, values, n_group)
    squares = np.bincount(group, values**2, n_group) * np.bincount(group, minlength=n_group)
    return np.divide(total**2, squares, out=np.ones(n_group), where=squares > 0)


class T3Evaluate(Task):
    """Serve the queues and judge the schedule: throughput, fairness, what is left."""

    inputs = ["Q", "CQI", "cell", "slice", "granted"]
    outputs = ["served", "throughput", "fairness", "drained", "utilisation"]
    config_deps = ["N_UE", "N_CELL", "N_SLICE"]

    @staticmethod
    def estimate_instructions(cfg: Config) -> int:
        return cfg.N_UE * 25 + cfg.N_CELL * 2 + cfg.N_SLICE * 10

    def compute(
        self,
        Q: np.ndarray,
        CQI: np.ndarray,
        cell: np.ndarray,
        slice: np.ndarray,
        granted: np.ndarray,
        cfg: Config,
    ) -> dict[str, Any]:
        served = np.minimum(Q, (granted * bits_per_block(CQI)).astype(np.int64))
        waiting = np.bincount(slice, Q, cfg.N_SLICE)
        sent = np.bincount(slice, served, cfg.N_SLICE)
        # Fair to whom? To those who wait and whom the cell can reach at all.
        asking = (Q > 0) & (CQI > 0)
        used = np.bincount(cell, granted, cfg.N_CELL)
        return {
            "served": served,
            "throughput": sent / WINDOW_S,
            "fairness": jain_index(served[asking] / WINDOW_S, slice[asking], cfg.N_SLICE),
            "drained": np.divide(sent, waiting, out=np.ones(cfg.N_SLICE), where=waiting > 0),
            "utilisation": used / (cfg.N_PRB * SLOTS),
        }


def build_dag(
    N_UE: int = 10_000, N_CELL: int = 7, N_SLICE: int = 5, K: int = 4, N_PRB: int = 106
) -> DAG:
    """Return the scheduler.

    Parameters
    ----------
    N_UE
        Users in all cells together.
    N_CELL
        Cells, on a hexagonal grid.
    N_SLICE
        Slices; every cell carries all of them.
    K
        Features of a UE: its traffic in the last `K` windows, at least 1.
    N_PRB
        Physical resource blocks of a cell.
    """
    return DAG(
        tasks={
            "collect": T0CollectState(),
            "predict": T1Predict(),
            "schedule": T2Schedule(),
            "evaluate": T3Evaluate(),
        },
        edges=[
            ("collect", "predict"),
            ("collect", "schedule"),
            ("predict", "schedule"),
            ("collect", "evaluate"),
            ("schedule", "evaluate"),
        ],
        config=Config(N_UE=N_UE, N_CELL=N_CELL, N_SLICE=N_SLICE, K=K, N_PRB=N_PRB),
        name="slice scheduler",
    )


def main() -> None:
    """Schedule one window, save the profile, and print it and the outcome by slice."""
    path = sys.argv[1] if len(sys.argv) > 1 else "slice_scheduler_profile.json"

    profile = build_dag().run(seed=42)
    profile.save(path)

    print(profile)
    outcome = profile.final_outputs
    print("\nslice  throughput Mbit/s  queue drained  Jain fairness")
    table = zip(outcome["throughput"] / 1e6, outcome["drained"], outcome["fairness"])
    for number, (throughput, drained, fairness) in enumerate(table):
        print(f"{number:5}  {throughput:17.2f}  {drained:13.1%}  {fairness:13.3f}")
    print(f"mean utilisation of the cells: {outcome['utilisation'].mean():.1%}")
    print(f"\nprofile: {path}")


if __name__ == "__main__":
    main()
