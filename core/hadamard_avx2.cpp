#include "hadamard.hpp"

#include <bit>
#include <cmath>

namespace gradwire {
namespace avx2 {
namespace {
#include "hadamard_loops.inl"
}  // namespace
}  // namespace avx2

const HadamardKernels hadamard_kernels_avx2 = avx2::table;

}  // namespace gradwire
