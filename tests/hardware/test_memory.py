"""Which errors mean that memory ran out, so that a smaller batch may help."""

import pytest
import torch

from nanoscope.hardware.memory import is_out_of_memory

AcceleratorError = getattr(torch, "AcceleratorError", RuntimeError)  # torch 2.8 and newer


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total of 7.63 GiB"),
        AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
        RuntimeError("MPS backend out of memory (MPS allocated: 9.06 GB, other allocations: 14 MB, max allowed: 9 GB)"),
        RuntimeError("Invalid buffer size: 19.38 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:83] data. DefaultCPUAllocator: not enough memory"),
    ],
    ids=str,
)
def test_memory_that_ran_out_is_recognised_whoever_says_so(error: Exception) -> None:
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error",
    [
        AcceleratorError("CUDA error: device-side assert triggered"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx`"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("mat1 and mat2 shapes cannot be multiplied (4x8 and 16x4)"),
        ValueError("out of memory"),
    ],
    ids=str,
)
def test_other_errors_are_not_taken_for_it(error: Exception) -> None:
    assert not is_out_of_memory(error)
