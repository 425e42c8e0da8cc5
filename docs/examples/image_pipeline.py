"""An image pipeline: how many cells a microscope's picture shows, and how sharp it is.

    python image_pipeline.py [PROFILE.json]

capture -> denoise -> segment -> label -> describe, where describe also takes the sharpness,
measured beside segment, and a thumbnail of the captured image.
"""

# ruff: noqa: D103

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from dagprofiler import DAG, Config, rng, task

#: Pixels from the middle of a cell to that of the next one, before they move at random.
PITCH = 32


@task(outputs=["image"], estimate_fn=lambda cfg: cfg.size**2 * 40)
def capture(cfg: Config) -> dict[str, Any]:
    """Return a noisy image of bright cells on a dark ground; one for every square of 32 pixels."""
    draw = rng()
    y, x = np.indices((cfg.size, cfg.size), dtype=np.float32)
    shape = (cfg.size // PITCH, cfg.size // PITCH, 1, 1)
    moved = draw.uniform(-4, 4, (2, *shape)) + PITCH / 2
    # Each square holds one cell, which stays inside of it.
    squares = [axis[:PITCH, :PITCH] for axis in (y, x)]
    distance = sum((axis - middle) ** 2 for axis, middle in zip(squares, moved))
    cells = np.exp(-distance / (2 * draw.uniform(3, 5, shape) ** 2))
    image = cells.transpose(0, 2, 1, 3).reshape(cfg.size, cfg.size)
    return {"image": (image + draw.normal(0, 0.1, image.shape)).astype(np.float32)}


@task(inputs=["image"], outputs=["smooth"], estimate_fn=lambda cfg: cfg.size**2 * 60)
def denoise(image: np.ndarray) -> dict[str, Any]:
    """Return the image convolved with a Gaussian of 2 pixels, row by row and column by column."""
    kernel = np.exp(-(np.arange(-6, 7) ** 2) / 8)
    smooth = image
    for axis in (0, 1):
        shifted = (np.roll(smooth, shift, axis) for shift in range(-6, 7))
        smooth = sum(weight * one for weight, one in zip(kernel / kernel.sum(), shifted))
    return {"smooth": smooth.astype(np.float32)}


@task(inputs=["smooth"], outputs=["sharpness"], estimate_fn=lambda cfg: cfg.size**2 * 10)
def measure_sharpness(smooth: np.ndarray) -> dict[str, Any]:
    """Return the mean length of the gradient where it is steep."""
    steepness = np.hypot(*np.gradient(smooth))
    return {"sharpness": float(steepness[steepness > np.quantile(steepness, 0.9)].mean())}


@task(inputs=["smooth"], outputs=["mask"], estimate_fn=lambda cfg: cfg.size**2 * 5)
def segment(smooth: np.ndarray) -> dict[str, Any]:
    """Separate cells from ground at the threshold of Otsu (IEEE Trans. SMC 9(1), 1979)."""
    counts, edges = np.histogram(smooth, 256)
    below, levels = np.cumsum(counts), (edges[:-1] + edges[1:]) / 2
    sums, above = np.cumsum(counts * levels), smooth.size - np.cumsum(counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = below * above * (sums / below - (sums[-1] - sums) / above) ** 2
    return {"mask": smooth > levels[np.nanargmax(apart)]}


@task(inputs=["mask"], outputs=["labels"])
def label(mask: np.ndarray) -> dict[str, Any]:
    """Give each cell a number: every pixel takes its neighbours' largest until none changes.

    The task has no cost model: how often it repeats depends on the widest cell.
    """
    labels = np.where(mask, np.arange(1, mask.size + 1, dtype=np.int32).reshape(mask.shape), 0)
    while True:
        wide = np.pad(labels, 1)
        largest = np.maximum.reduce(
            [wide[1:-1, 1:-1], wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, :-2], wide[1:-1, 2:]]
        )
        grown = np.where(mask, largest, 0)
        if np.array_equal(grown, labels):
            return {"labels": labels}
        labels = grown


@task(inputs=["image"], outputs=["thumbnail"], estimate_fn=lambda cfg: cfg.size**2 // 64)
def shrink(image: np.ndarray) -> dict[str, Any]:
    return {"thumbnail": image[::8, ::8].copy()}


@task(inputs=["labels", "sharpness", "thumbnail"], outputs=["report"])
def describe(labels: np.ndarray, sharpness: float, thumbnail: np.ndarray) -> dict[str, Any]:
    _, pixels = np.unique(labels[labels > 0], return_counts=True)
    brightness = float(thumbnail.mean())
    return {
        "report": {
            "cells": len(pixels),
            "pixels": float(pixels.mean()),
            "sharpness": sharpness,
            "brightness": brightness,
        }
    }


def build_dag(size: int = 768) -> DAG:
    """Return the pipeline for images of `size` times `size` pixels, a multiple of 32."""
    return DAG(
        {
            "capture": capture,
            "denoise": denoise,
            "sharpness": measure_sharpness,
            "segment": segment,
            "label": label,
            "shrink": shrink,
            "describe": describe,
        },
        [
            ("capture", "denoise"),
            ("capture", "shrink"),
            ("denoise", "sharpness"),
            ("denoise", "segment"),
            ("segment", "label"),
            ("label", "describe"),
            ("sharpness", "describe"),
            ("shrink", "describe"),
        ],
        Config(size=size),
        name="image pipeline",
    )


def main() -> None:
    """Run the pipeline, save its profile, and print the profile and the report."""
    path = sys.argv[1] if len(sys.argv) > 1 else "image_pipeline_profile.json"

    profile = build_dag().run(seed=42)
    profile.save(path)

    print(profile)
    print(f"\n{profile.final_outputs['report']}")
    print(f"\nprofile: {path}")


if __name__ == "__main__":
    main()
