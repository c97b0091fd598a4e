// A device guard that does nothing, so that a torch built without CUDA can hold fake CUDA tensors and their autograd.
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {
const c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> guard;
const c10::impl::DeviceGuardImplRegistrar registrar(c10::DeviceType::CUDA, &guard);
} // namespace
