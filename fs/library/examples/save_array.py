#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A NumPy array in registered memory, saved and loaded without a copy:  save_array.py SOURCE"""

import sys

import brickfs
import numpy

with brickfs.FileSystem(sys.argv[1]) as fs:
    memory = fs.buffer(1 << 20)
    array = numpy.frombuffer(memory, dtype=numpy.float64)
    array[:] = numpy.arange(len(array))
    with fs.open("array", "wb", buffering=0) as file:
        file.write(array)
        file.sync()
    array[:] = 0
    with fs.open("array", "rb", buffering=0) as file:
        file.readinto(array)
    print("the sum is", int(array.sum()))
    del array, memory  # before the file system is closed
