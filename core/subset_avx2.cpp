#include "subset.hpp"

namespace gradwire {
namespace {

#include "subset_loops.inl"

}  // namespace

const SubsetKernels subset_kernels_avx2 = {candidates, positions};

}  // namespace gradwire
