#include "quantise.hpp"

#include <cmath>
#include <limits>

namespace gradwire {
namespace avx512 {
namespace {
#include "quantise_loops.inl"
}  // namespace
}  // namespace avx512

const QuantiseKernels quantise_kernels_avx512 = avx512::table;

}  // namespace gradwire
