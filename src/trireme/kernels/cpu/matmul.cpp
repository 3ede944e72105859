#include "trireme/kernels/cpu/matmul.h"

#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"

namespace trireme::kernels {
namespace {

using dnnl::memory;
using Dims = memory::dims;

/// Dense descriptors of the product in oneDNN's terms: dst[rows,columns] = src * weights.
struct Descriptors {
  memory::desc src, weights, bias, dst;
};

memory::desc matrix(std::int64_t rows, std::int64_t columns) {
  return {Dims{rows, columns}, memory::data_type::f32, Dims{columns, 1}};
}

/// The transpose [columns, rows] of a row-major matrix [rows, columns], as a view.
memory::desc transposed(std::int64_t rows, std::int64_t columns) {
  return {Dims{columns, rows}, memory::data_type::f32, Dims{1, columns}};
}

Descriptors descriptors(const MatmulShape& s) {
  switch (s.kind) {
    case MatmulKind::kForward:
      return {matrix(s.m, s.k), transposed(s.n, s.k), matrix(1, s.n), matrix(s.m, s.n)};
    case MatmulKind::kInputGrad:
      return {matrix(s.m, s.n), matrix(s.n, s.k), {}, matrix(s.m, s.k)};
    case MatmulKind::kWeightGrad:
      return {transposed(s.m, s.n), matrix(s.m, s.k), {}, matrix(s.n, s.k)};
  }
  TRI_CHECK(false);
}

dnnl::primitive_attr attributes(const MatmulShape& shape) {
  dnnl::primitive_attr attr;
  // The default, library-owned scratchpad is shared: concurrent runs corrupt each other's results.
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0F);
    attr.set_post_ops(ops);
  }
  return attr;
}

dnnl::matmul::primitive_desc primitive_desc(const MatmulShape& shape, const dnnl::engine& engine) {
  const Descriptors d = descriptors(shape);
  const dnnl::primitive_attr attr = attributes(shape);
#if DNNL_VERSION_MAJOR >= 3
  if (shape.bias) return {engine, d.src, d.weights, d.bias, d.dst, attr};
  return {engine, d.src, d.weights, d.dst, attr};
#else
  const auto operation = shape.bias ? dnnl::matmul::desc(d.src, d.weights, d.bias, d.dst)
                                    : dnnl::matmul::desc(d.src, d.weights, d.dst);
  return {operation, attr, engine};
#endif
}

void check(const MatmulShape& shape) {
  if (shape.m >= 1 && shape.n >= 1 && shape.k >= 1 &&
      (!shape.bias || shape.kind == MatmulKind::kForward)) {
    return;
  }
  throw UsageError(fmt::format(
      "[matmul] m={} n={} k={} kind={} bias={}: sizes must be >= 1 and only kForward has a bias; "
      "correct the shape",
      shape.m, shape.n, shape.k, static_cast<int>(shape.kind), shape.bias));
}

}  // namespace

struct Matmul::Impl {
  explicit Impl(const MatmulShape& s)
      : shape(s),
        engine(dnnl::engine::kind::cpu, 0),
        stream(engine),
        description(primitive_desc(s, engine)),
        primitive(description),
        operands{memory(description.src_desc(), engine, nullptr),
                 memory(description.weights_desc(), engine, nullptr),
                 memory(description.dst_desc(), engine, nullptr),
                 memory(description.scratchpad_desc(), engine, nullptr),
                 memory(s.bias ? description.bias_desc() : memory::desc(), engine, nullptr)},
        arguments{{{DNNL_ARG_SRC, operands[0].get()},
                   {DNNL_ARG_WEIGHTS, operands[1].get()},
                   {DNNL_ARG_DST, operands[2].get()},
                   {DNNL_ARG_SCRATCHPAD, operands[3].get()},
                   {DNNL_ARG_BIAS, operands[4].get()}}} {}

  void set_handle(std::size_t operand, const void* handle) {
    // oneDNN has one handle type for inputs and outputs; it does not write to the inputs.
    operands[operand].set_data_handle(const_cast<void*>(handle));
  }

  MatmulShape shape;
  dnnl::engine engine;
  dnnl::stream stream;
  dnnl::matmul::primitive_desc description;
  dnnl::matmul primitive;
  std::array<memory, 5> operands;            // src, weights, dst, scratchpad, bias
  std::array<dnnl_exec_arg_t, 5> arguments;  // the same; bias last, so that it can be left out
};

Matmul::Matmul(const MatmulShape& shape) {
  check(shape);
  try {
    impl_ = std::make_unique<Impl>(shape);
  } catch (const dnnl::error& error) {
    throw ResourceError(
        fmt::format("[matmul] m={} n={} k={}: oneDNN cannot create the product ({}); free memory "
                    "or use another "
                    "shape",
                    shape.m, shape.n, shape.k, error.what()));
  }
}

Matmul::~Matmul() = default;
Matmul::Matmul(Matmul&&) noexcept = default;
Matmul& Matmul::operator=(Matmul&&) noexcept = default;

const MatmulShape& Matmul::shape() const {
  return impl_->shape;
}

std::int64_t Matmul::scratch_bytes() const {
  return static_cast<std::int64_t>(impl_->description.scratchpad_desc().get_size());
}

std::string Matmul::implementation() const {
  return impl_->description.impl_info_str();
}

void Matmul::run(const float* a, const float* b, const float* bias, float* out, void* scratch) {
  impl_->set_handle(0, a);
  impl_->set_handle(1, b);
  impl_->set_handle(2, out);
  impl_->set_handle(3, scratch);
  if (impl_->shape.bias) impl_->set_handle(4, bias);
  // The C entry point: the C++ wrapper builds a map and a vector of arguments in every call.
  const int num_arguments = impl_->shape.bias ? 5 : 4;
  const dnnl_status_t status = dnnl_primitive_execute(impl_->primitive.get(), impl_->stream.get(),
                                                      num_arguments, impl_->arguments.data());
  if (status != dnnl_success) {
    throw ResourceError(fmt::format(
        "[matmul] oneDNN status {} while running m={} n={} k={}: it must be 0; free memory",
        static_cast<int>(status), impl_->shape.m, impl_->shape.n, impl_->shape.k));
  }
}

void warm_up_matmul() {
  Matmul({.kind = MatmulKind::kForward, .m = 8, .n = 8, .k = 8});
}

std::string matmul_library_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

std::string matmul_instruction_set() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return fmt::format("{:#x}", static_cast<int>(dnnl::get_effective_cpu_isa()));
  }
}

}  // namespace trireme::kernels
