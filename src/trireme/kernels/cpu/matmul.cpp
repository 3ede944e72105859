#include "trireme/kernels/cpu/matmul.h"

#include <array>
#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/kernels/cpu/packed_matmul.h"

namespace trireme::kernels {

struct MatmulOperands {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
  void* scratch = nullptr;
};

namespace {

using dnnl::memory;
using Dims = memory::dims;

/// Dense descriptors of the product in oneDNN's terms: dst[rows,columns] = src * weights.
struct Descriptors {
  memory::desc src, weights, bias, dst;
};

using Type = memory::data_type;

memory::desc matrix(std::int64_t rows, std::int64_t columns, Type type) {
  return {Dims{rows, columns}, type, Dims{columns, 1}};
}

/// The transpose [columns, rows] of a row-major matrix [rows, columns], as a view.
memory::desc transposed(std::int64_t rows, std::int64_t columns, Type type) {
  return {Dims{columns, rows}, type, Dims{1, columns}};
}

Descriptors descriptors(const MatmulShape& s) {
  const Type type = s.dtype == DType::kBf16 ? Type::bf16 : Type::f32;
  switch (s.kind) {
    case MatmulKind::kForward:
      return {matrix(s.m, s.k, type), transposed(s.n, s.k, type), matrix(1, s.n, type),
              matrix(s.m, s.n, type)};
    case MatmulKind::kInputGrad:
      return {matrix(s.m, s.n, type), matrix(s.n, s.k, type), {}, matrix(s.m, s.k, type)};
    case MatmulKind::kWeightGrad:
      return {transposed(s.m, s.n, type), matrix(s.m, s.k, type), {}, matrix(s.n, s.k, Type::f32)};
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
  TRI_CHECK(shape.dtype == DType::kF32 || shape.dtype == DType::kBf16);
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
  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  virtual ~Impl() = default;
  [[nodiscard]] virtual std::int64_t scratch_bytes() const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  virtual void run(const MatmulOperands& operands) = 0;
};

namespace {

class LibraryMatmul final : public Matmul::Impl {
 public:
  explicit LibraryMatmul(const MatmulShape& s)
      : shape_(s),
        engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        description_(primitive_desc(s, engine_)),
        primitive_(description_),
        operands_{memory(description_.src_desc(), engine_, nullptr),
                  memory(description_.weights_desc(), engine_, nullptr),
                  memory(description_.dst_desc(), engine_, nullptr),
                  memory(description_.scratchpad_desc(), engine_, nullptr),
                  memory(s.bias ? description_.bias_desc() : memory::desc(), engine_, nullptr)},
        arguments_{{{DNNL_ARG_SRC, operands_[0].get()},
                    {DNNL_ARG_WEIGHTS, operands_[1].get()},
                    {DNNL_ARG_DST, operands_[2].get()},
                    {DNNL_ARG_SCRATCHPAD, operands_[3].get()},
                    {DNNL_ARG_BIAS, operands_[4].get()}}} {}

  [[nodiscard]] std::int64_t scratch_bytes() const override {
    return static_cast<std::int64_t>(description_.scratchpad_desc().get_size());
  }
  [[nodiscard]] std::string name() const override { return description_.impl_info_str(); }

  void run(const MatmulOperands& operands) override {
    set_handle(0, operands.a);
    set_handle(1, operands.b);
    set_handle(2, operands.out);
    set_handle(3, operands.scratch);
    if (shape_.bias) set_handle(4, operands.bias);
    // The C entry point: the C++ wrapper builds a map and a vector of arguments in every call.
    const int num_arguments = shape_.bias ? 5 : 4;
    const dnnl_status_t status =
        dnnl_primitive_execute(primitive_.get(), stream_.get(), num_arguments, arguments_.data());
    if (status != dnnl_success) {
      throw ResourceError(fmt::format(
          "[matmul] oneDNN status {} while running m={} n={} k={}: it must be 0; free memory",
          static_cast<int>(status), shape_.m, shape_.n, shape_.k));
    }
  }

 private:
  void set_handle(std::size_t operand, const void* handle) {
    // oneDNN has one handle type for inputs and outputs; it does not write to the inputs.
    operands_[operand].set_data_handle(const_cast<void*>(handle));
  }

  MatmulShape shape_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul::primitive_desc description_;
  dnnl::matmul primitive_;
  std::array<memory, 5> operands_;            // src, weights, dst, scratchpad, bias
  std::array<dnnl_exec_arg_t, 5> arguments_;  // the same; bias last, so that it can be left out
};

class PackedImpl final : public Matmul::Impl {
 public:
  explicit PackedImpl(const MatmulShape& shape)
      : product_(shape, omp_get_max_threads(), isa_kernels()) {}
  [[nodiscard]] std::int64_t scratch_bytes() const override { return product_.scratch_bytes(); }
  [[nodiscard]] std::string name() const override { return fmt::format("packed:{}", isa_name()); }
  void run(const MatmulOperands& operands) override {
    product_.run(operands.a, operands.b, operands.bias, operands.out, operands.scratch);
  }

 private:
  PackedMatmul product_;
};

/// oneDNN's sets are bits: one that contains another has all of its bits.
bool has_instructions(dnnl::cpu_isa isa) {
  const auto bits = static_cast<unsigned>(isa);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

std::unique_ptr<Matmul::Impl> make_impl(const MatmulShape& shape, MatmulEngine engine) {
  const bool needs_packing = shape.dtype == DType::kBf16 && !has_bf16_products();
  const bool packs =
      engine == MatmulEngine::kBest ? needs_packing : engine == MatmulEngine::kPacked;
  if (packs) return std::make_unique<PackedImpl>(shape);
  return std::make_unique<LibraryMatmul>(shape);
}

}  // namespace

Matmul::Matmul(const MatmulShape& shape, MatmulEngine engine) : shape_(shape) {
  check(shape);
  try {
    impl_ = make_impl(shape, engine);
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

std::int64_t Matmul::scratch_bytes() const {
  return impl_->scratch_bytes();
}

std::string Matmul::implementation() const {
  return impl_->name();
}

void Matmul::run(const void* a, const void* b, const void* bias, void* out, void* scratch) {
  impl_->run({.a = a, .b = b, .bias = bias, .out = out, .scratch = scratch});
}

bool has_bf16_products() {
  return has_instructions(dnnl::cpu_isa::avx512_core_bf16);
}

std::string bf16_matmul_arithmetic() {
  if (has_instructions(dnnl::cpu_isa::avx512_core_amx)) return "bf16 (AMX)";
  return has_bf16_products() ? "bf16 (AVX-512)" : "fp32 (no bf16 instructions)";
}

void warm_up_matmul() {
  Matmul({.kind = MatmulKind::kForward, .m = 8, .n = 8, .k = 8}, MatmulEngine::kLibrary);
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
