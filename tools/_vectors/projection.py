"""Targets of three numbers, worked out in plain Python: no linear algebra library, hence the same everywhere."""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path

Vector = list[float]


def unit(vector: Sequence[float]) -> Vector:
    """Scaled to unit length and rounded to single precision, as embeddings are after reading."""
    length = math.sqrt(math.fsum(value * value for value in vector))
    return [single(value / length) for value in vector]


def single(value: float) -> float:
    """The nearest number in single precision."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def project(training: Sequence[Vector], every: Sequence[Vector], components: int = 3) -> list[Vector]:
    """Standardised, projected on the principal components of ``training``, scaled to [-1, 1] by their range."""
    columns = list(zip(*training, strict=True))
    means = [math.fsum(column) / len(column) for column in columns]
    spreads = [
        math.sqrt(math.fsum((value - mean) ** 2 for value in column) / len(column)) or 1.0
        for column, mean in zip(columns, means, strict=True)
    ]
    fitted = [_standard(vector, means, spreads) for vector in training]
    result: list[Vector] = [[] for _ in every]
    for axis in _axes(fitted, components):
        places = [_dot(vector, axis) for vector in fitted]
        low, span = min(places), max(places) - min(places)
        for row, vector in zip(result, every, strict=True):
            place = 2.0 * (_dot(_standard(vector, means, spreads), axis) - low) / span - 1.0
            row.append(single(min(max(place, -1.0), 1.0)))
    return result


def _standard(vector: Vector, means: Vector, spreads: Vector) -> Vector:
    return [(value - mean) / spread for value, mean, spread in zip(vector, means, spreads, strict=True)]


def _axes(rows: list[Vector], components: int) -> list[Vector]:
    """Principal axes by way of the rows' inner products; the largest loading of each is positive."""
    values, vectors = _eigen([[_dot(left, right) for right in rows] for left in rows])
    order = sorted(range(len(rows)), key=lambda index: -values[index])[:components]
    axes = []
    for index in order:
        mixed = [_dot([vector[index] for vector in vectors], column) for column in map(list, zip(*rows, strict=True))]
        length = math.copysign(math.sqrt(_dot(mixed, mixed)), max(mixed, key=abs))
        axes.append([value / length for value in mixed])
    return axes


def _eigen(matrix: list[Vector]) -> tuple[Vector, list[Vector]]:
    """Eigenvalues and, as columns, eigenvectors of a symmetric matrix: Jacobi's method, row by row."""
    size = len(matrix)
    vectors = [[float(row == column) for column in range(size)] for row in range(size)]
    scale = math.sqrt(math.fsum(value * value for row in matrix for value in row))
    for _ in range(30):
        outside = math.fsum(matrix[p][q] ** 2 for p in range(size) for q in range(size) if p != q)
        if math.sqrt(outside) <= 1e-17 * scale:
            break
        for p in range(size - 1):
            for q in range(p + 1, size):
                _rotate(matrix, vectors, p, q)
    return [matrix[index][index] for index in range(size)], vectors


def _rotate(matrix: list[Vector], vectors: list[Vector], p: int, q: int) -> None:
    if matrix[p][q] == 0.0:
        return
    ratio = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q])
    tangent = math.copysign(1.0, ratio) / (abs(ratio) + math.hypot(ratio, 1.0))
    cosine = 1.0 / math.hypot(tangent, 1.0)
    sine = tangent * cosine
    for rows in (matrix, vectors):
        for row in rows:
            row[p], row[q] = cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]
    for index in range(len(matrix)):
        left, right = matrix[p][index], matrix[q][index]
        matrix[p][index], matrix[q][index] = cosine * left - sine * right, sine * left + cosine * right


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def read_archive(path: Path) -> dict[str, Vector]:
    """Unit vectors by text from a ``.vectors.npz`` of half-precision numbers."""
    with zipfile.ZipFile(path) as archive:
        texts = json.loads(_array(archive.read("texts.npy")))
        content = _array(archive.read("vectors.npy"))
    width = len(content) // 2 // len(texts)
    rows = struct.iter_unpack(f"<{width}e", content)
    return {text: unit(row) for text, row in zip(texts, rows, strict=True)}


def _array(content: bytes) -> bytes:
    """What follows the header of a ``.npy`` file of version 1."""
    stream = io.BytesIO(content)
    stream.seek(8)
    (size,) = struct.unpack("<H", stream.read(2))
    stream.seek(size, io.SEEK_CUR)
    return stream.read()
