#include "hadamard.hpp"

#include <bit>
#include <cmath>

namespace gradwire {
namespace avx512 {
namespace {
#include "hadamard_loops.inl"
}  // namespace
}  // namespace avx512

const HadamardKernels hadamard_kernels_avx512 = avx512::table;

}  // namespace gradwire
