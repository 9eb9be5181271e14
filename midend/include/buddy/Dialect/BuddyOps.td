//===- BuddyOps.td - the few ops upstream has none of -------------------===//
//
// Most are ops on tensors without a destination: the importer builds them whole,
// the graph phase decomposes them to upstream dialects.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_OPS
#define BUDDY_OPS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/DestinationStyleOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Buddy_Dialect : Dialect {
  let name = "buddy";
  let cppNamespace = "::buddy";
  let summary = "Ops of PyTorch models that upstream MLIR does not have";
  // The importer builds these ops as unregistered generic ones: all their
  // attributes stand in one dictionary.
  let usePropertiesForAttributes = 0;
  let useDefaultAttributePrinterParser = 1;
}

class Buddy_Attr<string name, string attrMnemonic> : AttrDef<Buddy_Dialect, name> {
  let mnemonic = attrMnemonic;
}

class Buddy_Op<string mnemonic, list<Trait> traits = []>
    : Op<Buddy_Dialect, mnemonic, traits>;

def FloatTensor : RankedTensorOf<[F16, BF16, F32, F64]>;
def MaskTensor : RankedTensorOf<[I1, F16, BF16, F32, F64]>;

def Buddy_AttentionOp : Buddy_Op<"attention", [Pure]> {
  let summary = "scaled dot-product attention with grouped heads";
  let description = [{
    `softmax(scale * q kᵀ + mask) v` on q `[B…, Hq, T, D]`, k `[B…, Hkv, S, D]`,
    v `[B…, Hkv, S, Dv]`; head h reads key head `h / (Hq / Hkv)`. The mask is
    broadcast to `[B…, Hq, T, S]`: i1 (true attends) or float (added). `causal` is
    `none`, `top_left` (j <= i) or `bottom_right` (j <= i + S - T). A row that
    attends nothing is 0. Computed in f32 for f16 and bf16.

    ```mlir
    %o = buddy.attention %q, %k, %v {causal = "bottom_right", scale = 0.125 : f64}
       : (tensor<9x?x64xf32>, tensor<3x?x64xf32>, tensor<3x?x64xf32>) -> tensor<9x?x64xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
                       Optional<MaskTensor>:$mask, StrAttr:$causal, F64Attr:$scale);
  let results = (outs FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

/// An op that also exists on buffers, where it has no results.
class Buddy_DestinationOp<string mnemonic> : Buddy_Op<mnemonic,
    [DestinationStyleOpInterface, DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let hasVerifier = 1;
}

def FloatBuffer : AnyTypeOf<[FloatTensor, MemRefOf<[F16, BF16, F32, F64]>]>;
def MaskBuffer : AnyTypeOf<[RankedTensorOf<[I1, I8, F16, BF16, F32, F64]>,
                            MemRefOf<[I1, I8, F16, BF16, F32, F64]>]>;

def Buddy_AttentionIntoOp : Buddy_DestinationOp<"attention_into"> {
  let summary = "attention that writes its result into a destination";
  let description = [{
    `buddy.attention` on tensors with a destination, or on memrefs of any strides, where
    it reads keys and values in place and has no result. Operands are those of
    `buddy.attention` and the destination, which is not read. A mask of i8 attends
    where it is not 0.

    ```mlir
    %o = buddy.attention_into %q, %k, %v, %e {causal = "none", scale = 0.125 : f64}
       : (tensor<9x?x64xf32>, tensor<3x?x64xf32>, tensor<3x?x64xf32>, tensor<9x?x64xf32>)
       -> tensor<9x?x64xf32>
    buddy.attention_into %q, %k, %v, %e {causal = "none", scale = 0.125 : f64}
       : (memref<9x?x64xf32>, memref<3x?x64xf32>, memref<3x?x64xf32>, memref<9x?x64xf32>) -> ()
    ```
  }];
  let arguments = (ins FloatBuffer:$query, FloatBuffer:$key, FloatBuffer:$value,
                       Optional<MaskBuffer>:$mask, FloatBuffer:$init, StrAttr:$causal,
                       F64Attr:$scale);
  let results = (outs Optional<FloatTensor>:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getInitMutable(); }
  }];
}

def Buddy_SoftmaxOp : Buddy_Op<"softmax", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "softmax along one dimension";
  let description = [{
    `exp(x - max) / sum(exp(x - max))` along `dim`; in f32 for f16 and bf16.

    ```mlir
    %y = buddy.softmax %x {dim = 1 : i64} : tensor<4x?xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$input, I64Attr:$dim);
  let results = (outs FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let hasVerifier = 1;
}

def Buddy_RMSNormOp : Buddy_Op<"rms_norm", [Pure]> {
  let summary = "root-mean-square normalisation over the trailing dimensions";
  let description = [{
    `x * rsqrt(mean(x²) + eps) * weight` over the last `dims` dimensions; in f32
    for f16 and bf16.

    ```mlir
    %y = buddy.rms_norm %x, %w {dims = 1 : i64, eps = 1.0e-5 : f64}
       : (tensor<?x576xf32>, tensor<576xf32>) -> tensor<?x576xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$input, Optional<FloatTensor>:$weight, I64Attr:$dims,
                       F64Attr:$eps);
  let results = (outs FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

def Buddy_LayerNormOp : Buddy_Op<"layer_norm", [Pure]> {
  let summary = "layer normalisation over the trailing dimensions";
  let description = [{
    `(x - mean) * rsqrt(var + eps) * weight + bias` over the last `dims`
    dimensions; in f32 for f16 and bf16. The operands after the input are the
    weight and the bias, as `has_weight` and `has_bias` say.

    ```mlir
    %y = buddy.layer_norm %x, %w, %b
         {dims = 1 : i64, eps = 1.0e-5 : f64, has_weight = true, has_bias = true}
       : (tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$input, Variadic<FloatTensor>:$parameters, I64Attr:$dims,
                       F64Attr:$eps, BoolAttr:$has_weight, BoolAttr:$has_bias);
  let results = (outs FloatTensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, $result)";
  let hasVerifier = 1;
}

//===-- Quantised weights ---------------------------------------------------===//

def Buddy_PackingAttr : Buddy_Attr<"Packing", "packing"> {
  let summary = "how a quantised weight lies in memory, as attribute of a weight argument";
  let description = [{
    A weight `[n, k]` is cut into panels of `panel` rows and blocks of `block` columns.
    It is stored as `[ceil(n / panel), k / block, bytes]`, so that one panel is read in
    one stream; rows beyond n are zero. Each row of a block has unsigned elements `u` of
    `bits` (4 or 8), a scale `d` and, if `mins`, a minimum `m`:
    `w = d * (u - zero) + m`. The bytes of a block are

    - the elements in groups of 4 columns: group g is `[panel, 4]` bytes, one 32-bit word
      a row, as byte dot products take it; of 4 bits, byte j of the first half holds
      group g in its low and group g + block / 8 in its high half;
    - the panel's scales and then its minima, f16 or f32 as `scale_bits` says.

    `format` is the name of the format the values come from.

    ```mlir
    #buddy.packing<format = "q4_1", n = 576, k = 1536, panel = 32, block = 32, bits = 4,
        zero = 0, mins = true, scale_bits = 16>
    ```
  }];
  let parameters = (ins StringRefParameter<"name of the source format">:$format,
                        "int64_t":$n, "int64_t":$k, "int64_t":$panel, "int64_t":$block,
                        "int64_t":$bits, "int64_t":$zero, "bool":$mins,
                        "int64_t":$scale_bits);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t panels() const { return (getN() + getPanel() - 1) / getPanel(); }
    int64_t blocks() const { return getK() / getBlock(); }
    /// Bytes of one block: elements, scales and minima of a panel's rows.
    int64_t elementBytes() const { return getPanel() * getBlock() * getBits() / 8; }
    int64_t scaleBytes() const { return getPanel() * getScaleBits() / 8; }
    int64_t blockBytes() const {
      return elementBytes() + scaleBytes() * (getMins() ? 2 : 1);
    }
    ::llvm::SmallVector<int64_t> storedShape() const {
      return {panels(), blocks(), blockBytes()};
    }
  }];
}

def Buddy_PanelsAttr : Buddy_Attr<"Panels", "panels"> {
  let summary = "how a weight of floats lies in memory, as attribute of a weight argument";
  let description = [{
    A weight `[n, k]`, or `[k, n]` if `transposed`, is cut into panels of `width` values
    of n, each read in one stream: it is stored as `[ceil(n / width), k, width]`. With a
    `unit` of 2, pairs along k are neighbours, as dot products of bf16 pairs take them:
    `[ceil(n / width), ceil(k / 2), width, 2]`. What lies beyond n or k is zero. An op
    reads it by the indexing map `(n floordiv width, k, n mod width)`, with pairs
    `(n floordiv width, k floordiv 2, n mod width, k mod 2)`.

    ```mlir
    #buddy.panels<n = 577, k = 1000, width = 32, unit = 1, transposed = false>
    ```
  }];
  let parameters = (ins "int64_t":$n, "int64_t":$k, "int64_t":$width, "int64_t":$unit,
                        "bool":$transposed);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<int64_t> storedShape() const {
      int64_t panels = (getN() + getWidth() - 1) / getWidth();
      if (getUnit() == 1)
        return {panels, getK(), getWidth()};
      return {panels, (getK() + getUnit() - 1) / getUnit(), getWidth(), getUnit()};
    }
    /// Where element (n, k) lies.
    ::llvm::SmallVector<::mlir::AffineExpr> index(::mlir::AffineExpr n,
                                                  ::mlir::AffineExpr k) const;
  }];
}

def Buddy_WindowsAttr : Buddy_Attr<"Windows", "windows"> {
  let summary = "the windows of a convolution as columns of a matrix, on a contraction";
  let description = [{
    Of a convolution as a contraction: its columns are the points of the output image in
    row-major order, its reduction the input channels and the places of the filter, the
    last of these fastest. All lists have an entry a spatial dimension. The image operand
    is then read by an indexing map that ends in a channel and a place in the image, and
    no columns are stored:

    ```mlir
    #buddy.windows<image = [14, 14], kernel = [3, 3], strides = [1, 1], dilations = [1, 1]>
    // affine_map<(n, row, col, red) -> (n, red floordiv 9,
    //   col floordiv 14 + (red mod 9) floordiv 3, col mod 14 + red mod 3)>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$image, ArrayRefParameter<"int64_t">:$kernel,
                        ArrayRefParameter<"int64_t">:$strides,
                        ArrayRefParameter<"int64_t">:$dilations);
  let assemblyFormat = [{
    `<` `image` `=` `[` $image `]` `,` `kernel` `=` `[` $kernel `]` `,`
        `strides` `=` `[` $strides `]` `,` `dilations` `=` `[` $dilations `]` `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Places in a window of one channel.
    int64_t places() const {
      int64_t count = 1;
      for (int64_t size : getKernel())
        count *= size;
      return count;
    }
    /// Channel and place in the image of element `red` of column `col`.
    ::llvm::SmallVector<::mlir::AffineExpr> index(::mlir::AffineExpr col,
                                                  ::mlir::AffineExpr red) const;
    /// Rows of the output image that `count` columns from a multiple of `count` on lie in, at
    /// most.
    int64_t segments(int64_t count) const;
  }];
}

def F32Buffer : AnyTypeOf<[RankedTensorOf<[F32]>, MemRefRankOf<[F32], [2]>]>;
def I32Buffer : AnyTypeOf<[RankedTensorOf<[I32]>, MemRefRankOf<[I32], [2]>]>;
def I8Buffer : AnyTypeOf<[RankedTensorOf<[I8]>, MemRefRankOf<[I8], [3]>]>;

def Buddy_QuantizeOp : Buddy_DestinationOp<"quantize"> {
  let summary = "blocks of int8 with a scale each, from rows of floats";
  let description = [{
    Row `m` of the input `[M, K]` is cut into blocks of `block` elements; with
    `scale = max |x| / 127` of a block, its elements become `round(x / scale)`
    (ties to even; 0 if the scale is 0). Written are the elements
    `[M, K / block, block]`, the scales `[M, K / block]` and the sums of each block's
    elements `[M, K / block]`, by which a contraction takes a weight's minimum or
    zero point into account. What is not finite makes the scale not finite.

    ```mlir
    %q, %d, %s = buddy.quantize ins(%x : tensor<?x64xf32>)
        outs(%0, %1, %2 : tensor<?x2x32xi8>, tensor<?x2xf32>, tensor<?x2xi32>)
        -> tensor<?x2x32xi8>, tensor<?x2xf32>, tensor<?x2xi32>
    ```
  }];
  let arguments = (ins FloatBuffer:$input, I8Buffer:$elements, F32Buffer:$scales,
                       I32Buffer:$sums);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    attr-dict `ins` `(` $input `:` type($input) `)`
    `outs` `(` $elements `,` $scales `,` $sums `:` type($elements) `,` type($scales) `,` type($sums) `)`
    (`->` type($results)^)?
  }];
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      return ::mlir::MutableOperandRange(*this, 1, 3);
    }
  }];
}

def Buddy_QuantizedMatmulOp : Buddy_DestinationOp<"quantized_matmul"> {
  let summary = "product of quantised rows and a packed quantised weight";
  let description = [{
    `C[m, n] = Σ_k x[m, k] w[n, k]` for rows from `buddy.quantize` and a weight
    `[N, K]` that lies as `#buddy.packing` says. Products within a block are summed in
    i32, exactly; blocks in f32.

    ```mlir
    %c = buddy.quantized_matmul {packing = #buddy.packing<…>}
        ins(%q, %d, %s, %w : …) outs(%init : tensor<?x96xf32>) -> tensor<?x96xf32>
    ```
  }];
  let arguments = (ins I8Buffer:$elements, F32Buffer:$scales, I32Buffer:$sums,
                       I8Buffer:$weight, F32Buffer:$output, Buddy_PackingAttr:$packing);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    attr-dict `ins` `(` $elements `,` $scales `,` $sums `,` $weight `:`
    type($elements) `,` type($scales) `,` type($sums) `,` type($weight) `)`
    `outs` `(` $output `:` type($output) `)` (`->` type($results)^)?
  }];
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getOutputMutable(); }
  }];
}

def Buddy_DequantizedMatmulOp : Buddy_DestinationOp<"dequantized_matmul"> {
  let summary = "product of rows of floats and a packed quantised weight";
  let description = [{
    `C[m, n] = Σ_k x[m, k] w[n, k]` for a weight `[N, K]` that lies as `#buddy.packing`
    says, whose elements are computed in f32 where they are used.

    ```mlir
    %c = buddy.dequantized_matmul {packing = #buddy.packing<…>}
        ins(%x, %w : tensor<?x64xf32>, tensor<3x2x640xi8>) outs(%init : tensor<?x96xf32>)
        -> tensor<?x96xf32>
    ```
  }];
  let arguments = (ins F32Buffer:$rows, I8Buffer:$weight, F32Buffer:$output,
                       Buddy_PackingAttr:$packing);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    attr-dict `ins` `(` $rows `,` $weight `:` type($rows) `,` type($weight) `)`
    `outs` `(` $output `:` type($output) `)` (`->` type($results)^)?
  }];
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() { return getOutputMutable(); }
  }];
}

def Buddy_QuantizedElementOp : Buddy_Op<"quantized_element",
    [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "one element of a packed quantised weight";
  let description = [{
    `w[n, k]` of a weight that lies as `#buddy.packing` says; what an embedding reads.

    ```mlir
    %x = buddy.quantized_element %w[%n, %k] {packing = #buddy.packing<…>} : tensor<3x2x640xi8>
    ```
  }];
  let arguments = (ins I8Buffer:$weight, Index:$row, Index:$column, Buddy_PackingAttr:$packing);
  let results = (outs F32:$result);
  let assemblyFormat = "$weight `[` $row `,` $column `]` attr-dict `:` type($weight)";
  let hasVerifier = 1;
}

def Buddy_CheckOp : Buddy_Op<"check", [MemoryEffects<[MemWrite]>]> {
  let summary = "make the call return an error if the condition is false";
  let description = [{
    Records `message` and an error code in the call's context if the condition is
    false; execution goes on, so what follows must be memory-safe in any case. The
    entry returns the first error recorded. With the unit attribute
    `buddy.precondition` the function returns at once instead.

    ```mlir
    buddy.check %ok, "index out of range in aten.embedding"
    ```
  }];
  let arguments = (ins I1:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict";
}

def Buddy_ScalarCallOp : Buddy_Op<"scalar_call", [Pure]> {
  let summary = "a function of numbers from the run-time library";
  let description = [{
    Calls a C function of `libbuddy_math` that depends on its arguments alone; what the
    special functions are whose elements are no loop worth generating. Stands in the
    bodies of element-wise ops like arithmetic, but is never vectorized. A library with
    such a call names `libbuddy_math.so`.

    ```mlir
    %y = buddy.scalar_call "buddy_special_digamma"(%x) : (f64) -> f64
    ```
  }];
  let arguments = (ins StrAttr:$callee, Variadic<AnyType>:$inputs);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$callee `(` $inputs `)` attr-dict `:` functional-type($inputs, $result)";
}

def Buddy_LibraryCallOp : Buddy_DestinationOp<"library_call"> {
  let summary = "a function of arrays from the run-time library";
  let description = [{
    Calls a C function of `libbuddy_linalg` that reads arrays and numbers, writes all of its
    last `destinations` operands, arrays which it does not read, and does nothing else that
    is seen; for factorizations and transforms that a library does better. An array is
    passed as a pointer to a `buddy_array` (buddy/Runtime/Array.h), of any strides; a number,
    i64 or f64, by value. A destination overlaps no other array. Runs on the thread that
    meets it. A library with such a call names `libbuddy_linalg.so`. The last destination of
    each function there is an i32 that is not 0 after a failure, such as no memory; whoever
    makes the call checks it.

    ```mlir
    %q, %failed = buddy.library_call "buddy_linalg_householder_product"(%a, %tau, %0, %1)
        {destinations = 2 : i64}
        : (tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>, tensor<i32>)
        -> (tensor<3x3xf64>, tensor<i32>)
    ```
  }];
  let arguments = (ins StrAttr:$callee,
      Variadic<AnyTypeOf<[AnyRankedTensor, AnyStridedMemRef, I64, F64]>>:$arguments,
      I64Attr:$destinations);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $results)
  }];
  let extraClassDeclaration = [{
    ::mlir::MutableOperandRange getDpsInitsMutable() {
      unsigned count = getDestinations();
      return ::mlir::MutableOperandRange(*this, getNumOperands() - count, count);
    }
  }];
}

def Buddy_NumThreadsOp : Buddy_Op<"num_threads", [Pure]> {
  let summary = "threads worth using for so much work";
  let description = [{
    1 if `work` (scalar operations, about a nanosecond a dozen) is too small to pay for
    a parallel region, else the thread count of the call's context.

    ```mlir
    %n = buddy.num_threads %work
    omp.parallel num_threads(%n : i32) { … }
    ```
  }];
  let arguments = (ins Index:$work);
  let results = (outs I32:$result);
  let assemblyFormat = "$work attr-dict";
}

def Buddy_TargetAttr : Buddy_Attr<"Target", "target"> {
  let summary = "the machine a module is compiled for, as module attribute `buddy.target`";
  let description = [{
    `name` is what the user asked for (`native`, `x86-64-v4`, `rv64gcv`…), the rest
    is what LLVM needs. Numbers about the machine are in TargetInfo, found by name.
  }];
  let parameters = (ins StringRefParameter<"requested name">:$name,
                        StringRefParameter<"LLVM triple">:$triple,
                        StringRefParameter<"LLVM CPU">:$cpu,
                        StringRefParameter<"LLVM features">:$features,
                        StringRefParameter<"ABI name">:$abi);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Buddy_ScheduleAttr : Buddy_Attr<"Schedule", "schedule"> {
  let summary = "how a contraction is generated, as op attribute `buddy.schedule`";
  let description = [{
    Written by `buddy-choose-schedule`, or by the user, who is not overruled.
    `mr` × `nr` is the register tile: rows, and columns in vectors of `vl` elements
    (of a scalable vector, times vscale, if `scalable`). A parallel task computes `mc`
    rows (a multiple of `mr`) of `nr` vectors of columns. `kc` is the block of the
    reduction held in a packed panel (a multiple of `vl`); `ku` the unroll of the
    reduction; `dot_m` the largest number of rows computed by vectorizing the reduction
    instead of a parallel dimension, where both operands are contiguous along it; `pack_m`
    the number of rows from which a panel is packed though it is contiguous. `pairs` (false
    if it is not there) multiplies bf16 elements of the reduction two at a time by the
    target's dot product of pairs; `vl` is then that of f32 and `kc` a multiple of 2·`vl`.
    `tile_m` (0, which is never, if it is not there) is the number of rows from which these
    pairs are multiplied by matrix tiles (x86's AMX, register tiles of 32 rows and columns),
    where the first operand is contiguous along the reduction, or 16 rows of a quantised
    product's bytes by byte tiles; `vl` is then 16, `kc` and `mc` are multiples of 32.

    ```mlir
    linalg.contract … {buddy.schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16,
        scalable = false, mc = 128, kc = 256, ku = 4, dot_m = 8, pack_m = 32>}
    ```
  }];
  let parameters = (ins "int64_t":$mr, "int64_t":$nr, "int64_t":$vl, "bool":$scalable,
                        "int64_t":$mc, "int64_t":$kc, "int64_t":$ku, "int64_t":$dot_m,
                        "int64_t":$pack_m, DefaultValuedParameter<"bool", "false">:$pairs,
                        DefaultValuedParameter<"int64_t", "0">:$tile_m);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif
