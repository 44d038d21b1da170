#include "natural.hpp"

#include <bit>
#include <cmath>

namespace gradwire {
namespace avx512 {
namespace {
#include "natural_loops.inl"
}  // namespace
}  // namespace avx512

const NaturalKernels natural_kernels_avx512 = avx512::table;

}  // namespace gradwire
