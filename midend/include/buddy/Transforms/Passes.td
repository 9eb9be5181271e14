//===- Passes.td - Buddy's passes ------------------------------------------===//

#ifndef BUDDY_PASSES
#define BUDDY_PASSES

include "mlir/Pass/PassBase.td"

//===-- Graph passes: on tensors --------------------------------------------===//

def SetTarget : Pass<"buddy-set-target", "::mlir::ModuleOp"> {
  let summary = "record the machine a module is compiled for";
  let description = [{
    Resolves `target` (a name known to TargetInfo) and writes the module attribute
    `buddy.target`, which later passes and code generation read. With an empty name
    an attribute that is already there is kept, and otherwise `native` is taken. With
    `keep` a name of another target than the attribute's is an error.

    ```mlir
    module attributes {buddy.target = #buddy.target<name = "rv64gcv", …>} { … }
    ```
  }];
  let options = [Option<"target", "target", "std::string", "", "Name of the target">,
                 Option<"keep", "keep", "bool", "false",
                        "Refuse another target than the module's">];
  let dependentDialects = ["::buddy::BuddyDialect"];
}

def VerifyImport : Pass<"buddy-verify-import", "::mlir::ModuleOp"> {
  let summary = "fail early where a module is not what an importer may hand over";
  let description = [{
    Checks each function with `buddy.entry`: a body, no results, memref and i64
    arguments, and the form of their `buddy.*` attributes (docs/architecture.md,
    section 2). An error names the entry and the argument.

    ```mlir
    func.func @f(%x: tensor<4xf32>) attributes {buddy.entry} { … }
    // error: entry @f, argument 0: must be a memref or an i64, not 'tensor<4xf32>'
    ```
  }];
}

def OutlineLayers : Pass<"buddy-outline-layers", "::mlir::ModuleOp"> {
  let summary = "make each repeated layer one function called with other weights";
  let description = [{
    Groups the ops of an entry point by their `buddy.module` attribute, moves each
    group into a private function and replaces functions that are equal up to
    locations by one. Compile time and code size then do not grow with the number of
    layers. A group is left inline if an op outside it stands between two of its ops
    in the data flow, if it holds no contraction, or if it occurs once.

    A result becomes a destination argument, so that no buffer is returned; a result
    that updates an argument in place stays tied to that argument.

    ```mlir
    %a = linalg.contract … ins(%x, %w0 …) {buddy.module = "layers.0"}
    %b = linalg.contract … ins(%a, %w1 …) {buddy.module = "layers.1"}
    // becomes
    %a = call @layer(%x, %w0, %e0)
    %b = call @layer(%a, %w1, %e1)
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::tensor::TensorDialect",
                           "::mlir::bufferization::BufferizationDialect"];
}

def DecomposeOps : Pass<"buddy-decompose-ops", "::mlir::func::FuncOp"> {
  let summary = "lower softmax and norms to linalg, give attention a destination";
  let description = [{
    The reference lowering of softmax and the norms to reductions and element-wise
    `linalg.generic` ops. `buddy.attention` becomes `buddy.attention_into` with an empty
    tensor as its destination, for `buddy-lower-attention`; a mask of i1 becomes bytes.

    ```mlir
    %y = buddy.rms_norm %x, %w {dims = 1 : i64, eps = 1.0e-5 : f64} : …
    // becomes a reduction of x² and one element-wise linalg.generic
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

def FoldTransposes : Pass<"buddy-fold-transposes", "::mlir::func::FuncOp"> {
  let summary = "read transposed and broadcast operands of contractions by indexing map";
  let description = [{
    An operand of a contraction that is a pure permutation or broadcast of another
    tensor (`linalg.transpose`, `linalg.broadcast`, or a `linalg.generic` that only
    yields its input) is read from that tensor by a composed indexing map.

    ```mlir
    %t = linalg.transpose ins(%w : tensor<8x4xf32>) outs(…) permutation = [1, 0]
    %y = linalg.matmul ins(%x, %t …)
    // becomes a linalg.contract that reads %w by (m, n, k) -> (n, k)
    ```
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect"];
}

def LowerConvolutions : Pass<"buddy-lower-convolutions", "::mlir::func::FuncOp"> {
  let summary = "convolutions as matrix products of filters and windows";
  let description = [{
    A convolution, of any number of dimensions, strides, dilations, groups and either
    order of channels, whose output channels share windows, becomes a contraction of the
    filter with columns, which are windows. Where the target's vectors have masks, the
    image's size is known and its rows are contiguous, columns exist as an indexing map
    only, with the attribute `buddy.windows` (`#buddy.windows`): the contraction's
    generator takes them from the image.

    ```mlir
    %y = linalg.conv_2d_nchw_fchw ins(%x, %w : tensor<1x8x9x9xf32>, tensor<16x8x3x3xf32>) …
    // becomes
    #x = affine_map<(n, f, p, k) -> (n, k floordiv 9, p floordiv 7 + (k mod 9) floordiv 3,
                                     p mod 7 + k mod 3)>
    %product = linalg.generic {indexing_maps = [#x, …], buddy.windows = …}
      ins(%x, %f : tensor<1x8x9x9xf32>, tensor<16x72xf32>) …
    ```

    Otherwise an op copies the windows to columns. Windows of one element side by side
    are the image itself. What is depthwise, or has few output channels, is left alone.
    Columns that are larger than a quarter of the last cache are made tile by tile, those
    of a batch of unknown size image by image.

    ```mlir
    // or
    %columns = linalg.generic … ins(%x) outs(…: tensor<1x8x3x3x7x7xf32>)  // a copy
    %product = linalg.generic … ins(%c, %f : tensor<1x72x49xf32>, tensor<16x72xf32>) …
    ```
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect"];
}

def FuseElementwise : Pass<"buddy-fuse-elementwise", "::mlir::func::FuncOp"> {
  let summary = "fuse chains of element-wise ops, contractions kept whole";
  let description = [{
    Generalizes named linalg ops except contractions, then fuses element-wise producers
    with one use into their consumers (upstream's patterns). A contraction is no
    consumer: fused operands would be computed once for each use of an element. What follows
    a contraction whose result is used in another shape only (a convolution's) is computed
    in the contraction's shape and reshaped after it.

    ```mlir
    %a = linalg.exp ins(%x …)
    %b = linalg.add ins(%a, %y …)
    // becomes one linalg.generic with exp and add in its body
    ```
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::tensor::TensorDialect"];
}

def PackWeights : Pass<"buddy-pack-weights", "::mlir::ModuleOp"> {
  let summary = "lay weights out as the kernels stream them";
  let description = [{
    A weight argument of an entry with `buddy.format` (`q4_0`, `q4_1`, `q8_0`: what its
    values are, block by block) that is used by products of rows `[.., k]` with it,
    `[n, k]`, and by element reads (an embedding) only, in the entry and in the layers
    that it is passed to, becomes bytes in panels with the attribute `buddy.packing`.
    The products become `buddy.quantized_matmul` of rows quantised to int8, or with
    `activations=f32` `buddy.dequantized_matmul` of rows as they are, the reads
    `buddy.quantized_element`. Weights that one layer function takes in turn are packed
    alike or not at all. The shape of the argument changes; its offset in the weights
    file is for the writer of the file to set anew.

    With `buddy.format = "plain"` the values are floats as they are. A weight `[n, k]` or
    `[k, n]` whose products all compute vectors along n becomes panels of columns
    (`#buddy.panels`), and the products read it by another indexing map:

    ```mlir
    func.func @f(%w: memref<70x64xf32> {buddy.kind = "weight", buddy.format = "plain"}, …)
      %y = linalg.contract indexing_maps = [#x, affine_map<(m, n, k) -> (n, k)>, #y] …
    // becomes
    func.func @f(%w: memref<3x64x32xf32> {buddy.kind = "weight", buddy.packing = …}, …)
      %y = linalg.generic {indexing_maps =
               [#x, affine_map<(m, n, k) -> (n floordiv 32, k, n mod 32)>, #y], …} …
    ```

    Quantised:

    ```mlir
    func.func @f(%w: memref<64x32xf32> {buddy.kind = "weight", buddy.format = "q8_0"}, …)
      %y = linalg.contract … ins(%x, %w : tensor<?x32xf32>, tensor<64x32xf32>) …
    // becomes
    func.func @f(%w: memref<2x1x1088xi8> {buddy.kind = "weight", buddy.packing = …}, …)
      %q, %d, %s = buddy.quantize ins(%x : …) …
      %y = buddy.quantized_matmul {packing = …} ins(%q, %d, %s, %w : …) …
    ```
  }];
  let options = [
    Option<"activations", "activations", "::buddy::Activations",
           /*default=*/"::buddy::Activations::Int8",
           "What rows become where they meet quantised weights",
           [{::llvm::cl::values(
             clEnumValN(::buddy::Activations::Int8, "int8", "blocks of int8"),
             clEnumValN(::buddy::Activations::F32, "f32", "f32; weights are dequantised"))}]>,
  ];
  let dependentDialects = ["::buddy::BuddyDialect", "::mlir::affine::AffineDialect",
                           "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ChooseSchedule : Pass<"buddy-choose-schedule", "::mlir::func::FuncOp"> {
  let summary = "write a #buddy.schedule on each contraction";
  let description = [{
    Reads a contraction's indexing maps, types and the target's TargetInfo and writes
    the tile sizes that `buddy-lower-contractions` obeys. A schedule that is already
    there is kept. An op for which there is no vector code (another body than
    `c + cast(a) * cast(b)`, complex numbers, no column dimension) gets none.

    ```mlir
    linalg.matmul ins(%a, %b : tensor<?x?xf32>, …) …
    // becomes, for 512-bit vectors,
    linalg.matmul {buddy.schedule = #buddy.schedule<mr = 8, nr = 2, vl = 16, scalable = false,
        mc = 128, kc = 256, ku = 4, dot_m = 8, pack_m = 32>} ins(%a, %b : tensor<?x?xf32>, …) …
    ```
  }];
  let dependentDialects = ["::buddy::BuddyDialect"];
}

//===-- Kernel passes: on buffers -------------------------------------------===//

def Bufferize : Pass<"buddy-bufferize", "::mlir::ModuleOp"> {
  let summary = "one-shot bufferization in place, function arguments with unit last stride";
  let description = [{
    Upstream's one-shot module bufferization with two choices that its pass cannot
    express: an argument of a private function is a memref of dynamic strides and
    offset but unit last stride, so that a slice of a cache is passed without a copy and
    rows stay contiguous for vector code; allocations are aligned to 64 bytes.
    Destinations of `materialize_in_destination` are written directly where nothing that
    is still read is destroyed by that; else the result has a buffer of its own, which is
    copied to the destination at the end:

    ```mlir
    %t = bufferization.to_tensor %state restrict writable : …
    %v = linalg.generic ins(%t) outs(%empty) { x + 1 }
    bufferization.materialize_in_destination %t in restrict writable %out
    bufferization.materialize_in_destination %v in restrict writable %state
    // becomes, the old value being saved first,
    memref.copy %state, %out
    linalg.generic ins(%state) outs(%state) { x + 1 }
    ```
  }];
  let dependentDialects = ["::mlir::bufferization::BufferizationDialect",
                           "::mlir::memref::MemRefDialect"];
}

def SpecializeArguments : Pass<"buddy-specialize-arguments", "::mlir::ModuleOp"> {
  let summary = "arguments of private functions in the layout that all calls pass";
  let description = [{
    After bufferization the arguments of a private function have strides and an offset
    that are known at run time only. Where all calls cast the same type to that, the
    argument takes this type, so that a layer's weights are contiguous to it.

    ```mlir
    func.func private @layer(%w: memref<64x32xf32, strided<[?, 1], offset: ?>>)
    %c = memref.cast %w0 : memref<64x32xf32> to memref<64x32xf32, strided<[?, 1], offset: ?>>
    call @layer(%c)
    // becomes
    func.func private @layer(%w: memref<64x32xf32>)
    call @layer(%w0)
    ```
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect"];
}

def LowerAttention : Pass<"buddy-lower-attention", "::mlir::func::FuncOp"> {
  let summary = "attention as one pass over blocks of keys with online softmax";
  let description = [{
    Turns `buddy.attention_into` on memrefs into one loop, parallel over batch, key heads
    and blocks of queries, that never holds more than a block of scores: for each block
    of keys the scores are a contraction, masked and exponentiated against the running
    maximum of their row, and a second contraction adds them up with the values, what was
    summed before being scaled to the new maximum (Milakov and Gimelshein, "Online
    normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).

    All query heads of a key head are rows of one task, so that keys and values are read
    once. Blocks beyond the diagonal of causal attention are not computed. If there are
    few tasks, as when a decoder computes one query, keys are split among more of them,
    whose partial results are combined afterwards. The pieces are linalg ops on buffers of
    the thread, the contractions with a `#buddy.schedule`: `buddy-lower-contractions`
    and `buddy-lower-loops` lower them, sequentially.

    ```mlir
    buddy.attention_into %q, %k, %v, %o {causal = "bottom_right", scale = 0.125 : f64} : …
    // becomes
    omp.parallel … { omp.wsloop { omp.loop_nest (%head, %block, %split) … {
      scf.for %key = … {
        linalg.contract … ins(%rows, %keys) outs(%scores)
        linalg.generic …                // maximum, exponentials and their sum
        linalg.contract … ins(%scores, %values) outs(%sums)
      }
      linalg.generic … outs(%result)    // sums divided by the sum of exponentials
    }}}
    ```
  }];
  let dependentDialects = [
    "::buddy::BuddyDialect", "::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::omp::OpenMPDialect", "::mlir::scf::SCFDialect"];
}

def LowerContractions : Pass<"buddy-lower-contractions", "::mlir::func::FuncOp"> {
  let summary = "generate vector code for contractions on buffers";
  let description = [{
    Turns each contraction on memrefs into loops over register tiles of vector FMAs,
    parallel over blocks of the result, as its `#buddy.schedule` says. Indexing maps
    decide which dimensions are rows, columns, reduction and batch; edges are handled by
    smaller tiles and masks, so that any size, static or dynamic, 0 included, is right.
    Sums of f16 and bf16 are kept in f32 and rounded once; bf16 goes by pairs into dot
    product instructions if the schedule has `pairs`, or into matrix tiles from `tile_m`
    rows on; a fill with zero right before
    the op is replaced by sums that start from zero. An element-wise op that alone reads
    the result is applied to each task's part of it inside the loops, if it can be moved
    there: no input of the contraction is written in between, its output is none of them, and
    what it reads besides is not its output but in place. An op without a schedule is left
    alone.

    Windows (`buddy.windows`) are packed from the image by masked loads. Of an image that
    is a copy with zeros around it, made for that only, the original is read, and masks
    leave the zeros out; the copy is erased.

    ```mlir
    linalg.matmul {buddy.schedule = …} ins(%a, %b) outs(%c)
    // becomes
    omp.parallel … { omp.wsloop { omp.loop_nest (%row, %col) … step (%mc, %columns) {
      scf.for %k0 … {              // blocks of the reduction
        …                          // B[%k0.., %col..] packed, if that pays
        scf.for %r … {             // register tiles
          scf.for %k … iter_args(…) { vector.load, vector.broadcast, vector.fma … }
    }}}}}
    ```
  }];
  let dependentDialects = [
    "::buddy::BuddyDialect", "::mlir::amx::AMXDialect", "::mlir::arith::ArithDialect",
    "::mlir::memref::MemRefDialect", "::mlir::omp::OpenMPDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect", "::mlir::affine::AffineDialect",
    "::mlir::x86vector::X86VectorDialect"];
}

def EmulateAMX : Pass<"buddy-emulate-amx", "::mlir::func::FuncOp"> {
  let summary = "run AMX code where the CPU has none, for tests";
  let description = [{
    Tiles become vectors of the same shape, their loads and stores those of rows, and a
    product of tiles scalar loops over buffers of the thread. It goes between the phases
    `kernel` and `llvm`, and is no part of the pipeline.

    ```mlir
    %s = amx.tile_mulf %a, %b, %c
      : !amx.tile<16x32xbf16>, !amx.tile<16x32xbf16>, !amx.tile<16x16xf32>
    // becomes
    scf.for %m … { scf.for %p … { scf.for %n … { … arith.addf … } } }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect"];
}

def LowerQuantized : Pass<"buddy-lower-quantized", "::mlir::func::FuncOp"> {
  let summary = "generate vector code for products with quantised weights";
  let description = [{
    `buddy.quantize`, `buddy.quantized_matmul` and `buddy.quantized_element` on buffers
    become loops. A product is parallel over panels of the weight and blocks of rows; a
    tile of `mr` rows sums the bytes of a block in i32 vectors (by the byte dot product
    where the target has one, or 16 rows by matrix tiles from the schedule's `tile_m` rows
    on) and blocks in f32 vectors. Each byte of the weight is
    loaded once a row tile, and a panel is one stream.

    ```mlir
    buddy.quantized_matmul {packing = …, buddy.schedule = …} ins(%q, %d, %s, %w : …) outs(%c : …)
    // becomes
    omp.parallel … { omp.wsloop { omp.loop_nest (%row, %panel) … {
      scf.for %block … iter_args(…) { vector.load, llvm.call_intrinsic "…vpdpbusd…", vector.fma … }
    }}}
    ```
  }];
  let dependentDialects = [
    "::buddy::BuddyDialect", "::mlir::amx::AMXDialect", "::mlir::arith::ArithDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::memref::MemRefDialect",
    "::mlir::math::MathDialect", "::mlir::omp::OpenMPDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect"];
}

def LowerForalls : Pass<"buddy-lower-foralls", "::mlir::func::FuncOp"> {
  let summary = "make parallel regions of scf.forall";
  let description = [{
    The importer writes what is done row by row (sorting, bags of embeddings) as an
    `scf.forall`. On buffers it becomes a parallel region with as many threads as the
    elements it touches are worth; what is inside stays sequential. Buffers of an iteration
    become the thread's. A loop with a buffer whose size is known only inside, with a
    mapping, or in a parallel region already, stays.

    ```mlir
    scf.forall (%i) in (%n) { … memref.subview %x[%i, 0] … }
    // becomes
    %threads = buddy.num_threads %work
    omp.parallel num_threads(%threads : i32) { omp.wsloop { omp.loop_nest (%i) … { … } } }
    ```
  }];
  let dependentDialects = ["::buddy::BuddyDialect", "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::omp::OpenMPDialect",
                           "::mlir::scf::SCFDialect"];
}

def FuseRows : Pass<"buddy-fuse-rows", "::mlir::func::FuncOp"> {
  let summary = "put neighbouring ops on the same rows in one loop over rows";
  let description = [{
    Consecutive linalg ops on memrefs whose leading parallel dimensions have the same
    sizes, and which touch what another of them writes only at their own row, become one
    parallel loop over rows with an op on one row for each inside. So a row is read from
    memory once (the sum and the scaling of a norm, the passes of a softmax), and one
    parallel region does for all.

    ```mlir
    linalg.generic … ins(%x : memref<?x64xf32>) outs(%sum : memref<?xf32>)
    linalg.generic … ins(%x, %sum : …) outs(%y : memref<?x64xf32>)
    // becomes
    omp.parallel … { omp.wsloop { omp.loop_nest (%i) … {
      linalg.generic … ins(%x_i : memref<64xf32, …>) outs(%sum_i : memref<f32, …>)
      linalg.generic … ins(%x_i, %sum_i : …) outs(%y_i : memref<64xf32, …>)
    }}}
    ```
  }];
  let dependentDialects = ["::buddy::BuddyDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::omp::OpenMPDialect", "::mlir::scf::SCFDialect"];
}

def LowerLoops : Pass<"buddy-lower-loops", "::mlir::func::FuncOp"> {
  let summary = "lower linalg ops on buffers to loops, the outer ones parallel";
  let description = [{
    A linalg op on memrefs becomes a loop nest whose leading parallel dimensions form
    one OpenMP loop, with as many threads as the amount of work is worth, and whose inner
    dimensions stay sequential. The innermost loop works on vectors if every operand is
    contiguous or constant along it and every op of the body has a vector form, and on
    scalars otherwise; what is left of its range is one vector with a mask where the
    target has masks, else narrower vectors and scalars. What the body reads at computed
    places is gathered, or loaded where it is adjacent. Inputs that are contiguous along
    another loop are read in square tiles and transposed in registers; two, four or eight
    rows that become neighbouring elements are read in vectors and interleaved. A reduction
    keeps several accumulators. A single parallel dimension is split into chunks. Copies too
    are
    loops of this kind.

    ```mlir
    linalg.generic {… iterator_types = ["parallel", "parallel"]} …
    // becomes
    %n = buddy.num_threads %work
    omp.parallel num_threads(%n : i32) { omp.wsloop { omp.loop_nest (%i) … { scf.for … } } }
    ```
  }];
  let dependentDialects = ["::buddy::BuddyDialect", "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect", "::mlir::omp::OpenMPDialect",
                           "::mlir::scf::SCFDialect", "::mlir::affine::AffineDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::vector::VectorDialect"];
}

def ExpandMath : Pass<"buddy-expand-math", "::mlir::func::FuncOp"> {
  let summary = "replace math functions by polynomials that vectorize";
  let description = [{
    exp, tanh and erf on f32 become polynomials of f32; sin, cos, tan, their inverses,
    sinh, cosh, exp2, expm1, logarithms and pow on f32 become arithmetic of f64 that is
    rounded once; exp and log on f64 become arithmetic of f64. f16 and bf16 are computed
    in f32. What has no polynomial (most functions of f64), and angles from 2^50 on, are
    called from the C math library.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::vector::VectorDialect", "::mlir::affine::AffineDialect",
                           "::mlir::scf::SCFDialect"];
}

def CallMath : Pass<"buddy-call-math", "::mlir::ModuleOp"> {
  let summary = "call the C library where upstream's conversion loses digits";
  let description = [{
    `math.expm1` and `math.log1p` that are left, of f64, become calls; conversion to the
    LLVM dialect would make `exp(x) - 1` and `log(1 + x)` of them, of which nothing is right
    near 0.

    ```mlir
    %y = math.expm1 %x : f64
    // becomes
    %y = func.call @expm1(%x) : (f64) -> f64
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect", "::mlir::vector::VectorDialect"];
}

def MergeRegions : Pass<"buddy-merge-regions", "::mlir::func::FuncOp"> {
  let summary = "put parallel loops that do not depend on each other in one region";
  let description = [{
    `omp.parallel` regions of one loop each become one region if none of the loops writes
    what another touches: its threads run all loops without waiting for each other. The
    work of all together decides whether several threads are worth it, so that the small
    projections of a layer are split along with the large one. Each loop, and what is
    sequential, comes as early as what it depends on allows; arithmetic, allocations,
    checks and reads of what is not written before go first. Branches on sizes take the
    loops in them along.

    A call, an op of unknown effects and a value from memory that later ops need are not
    moved, nor is anything past them. Regions with a thread's buffer of dynamic size stay
    alone.

    ```mlir
    %n = buddy.num_threads %w
    omp.parallel num_threads(%n : i32) { omp.wsloop nowait { … ins(%x) outs(%a) } }
    %m = buddy.num_threads %v
    omp.parallel num_threads(%m : i32) { omp.wsloop nowait { … ins(%x) outs(%b) } }
    // becomes
    %sum = arith.addi %w, %v : index
    %both = buddy.num_threads %sum
    omp.parallel num_threads(%both : i32) {
      omp.wsloop nowait { … ins(%x) outs(%a) }
      omp.wsloop nowait { … ins(%x) outs(%b) }
    }
    ```
  }];
  let dependentDialects = ["::buddy::BuddyDialect", "::mlir::arith::ArithDialect",
                           "::mlir::omp::OpenMPDialect", "::mlir::scf::SCFDialect"];
}

def LowerCalls : Pass<"buddy-lower-calls", "::mlir::ModuleOp"> {
  let summary = "calls of the run-time library as calls of C functions";
  let description = [{
    ```mlir
    %y = buddy.scalar_call "buddy_special_digamma"(%x) : (f64) -> f64
    // becomes
    llvm.func @buddy_special_digamma(f64) -> f64
    %y = llvm.call @buddy_special_digamma(%x) : (f64) -> f64
    ```

    A `buddy.library_call` passes each of its arrays as a pointer to a `buddy_array`
    (buddy/Runtime/Array.h) in the function's frame. The library is built for the machine
    of the compiler: a call in a module for another architecture is an error.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect",
                           "::mlir::arith::ArithDialect"];
}

def ShareLoops : Pass<"buddy-share-loops", "::mlir::ModuleOp"> {
  let summary = "loops over each thread's part instead of OpenMP loops";
  let description = [{
    Each thread of a region gets consecutive iterations of an `omp.wsloop`, the first
    threads one more if they do not divide evenly: what the runtime would answer, without
    asking it at each loop. Without `nowait` a barrier follows.

    Loops with reductions, private variables, an order or a schedule of their own, and
    inclusive bounds are left to OpenMP's own lowering.

    ```mlir
    omp.wsloop nowait { omp.loop_nest (%i) : index = (%c0) to (%n) step (%c1) { … } }
    // becomes
    %thread = llvm.call @omp_get_thread_num() : () -> i32
    %threads = llvm.call @omp_get_num_threads() : () -> i32
    // first and end from the number of iterations
    scf.for %i = %first to %end step %c1 { … }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::omp::OpenMPDialect", "::mlir::scf::SCFDialect"];
}

def ExpandReshapes : Pass<"buddy-expand-reshapes", "::mlir::func::FuncOp"> {
  let summary = "lower memref.expand_shape to reinterpret_cast";
  let description = [{
    Sizes are taken from the op's output shape, strides from the source's strides and
    the inner sizes. Upstream's `expand-strided-metadata` derives the sizes again and
    cannot if two dimensions of a group are dynamic.

    ```mlir
    %r = memref.expand_shape %m [[0, 1], [2]] output_shape [%b, %t, 3] : …
    // becomes
    %base, %offset, %sizes:2, %strides:2 = memref.extract_strided_metadata %m
    %r = memref.reinterpret_cast %base to offset: [0], sizes: [%b, %t, 3], strides: [%s, 3, 1]
    ```
  }];
  let dependentDialects = ["::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect"];
}

def ExpandBools : Pass<"buddy-expand-bools", "::mlir::func::FuncOp"> {
  let summary = "read and write vectors of bits as bytes";
  let description = [{
    In memory a bit takes a byte, that of a vector too; LLVM would pack a vector's.

    ```mlir
    %0 = vector.load %m[%i] : memref<?xi1>, vector<8xi1>
    // becomes
    %b = builtin.unrealized_conversion_cast %m : memref<?xi1> to memref<?xi8>
    %1 = vector.load %b[%i] : memref<?xi8>, vector<8xi8>
    %0 = arith.trunci %1 : vector<8xi8> to vector<8xi1>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::vector::VectorDialect"];
}

def ExpandBFloat16 : Pass<"buddy-expand-bf16", "::mlir::ModuleOp"> {
  let summary = "replace bf16 by the 16-bit integers of its bits";
  let description = [{
    Conversions become shifts and integer rounding (to nearest, ties to even; a NaN
    stays one); loads, stores, selects and constants move integers. From and to f64 by
    way of f32. What computes in bf16 is an error: `arith-emulate-unsupported-floats`
    and `math-extend-to-supported-types` go first. `x86vector.avx512.dot`, which is an
    instruction, keeps bf16 operands, made from the integers; AMX tiles keep theirs.

    ```mlir
    %0 = vector.load %m[%i] : memref<?xbf16>, vector<8xbf16>
    %1 = arith.extf %0 : vector<8xbf16> to vector<8xf32>
    // becomes
    %0 = vector.load %m[%i] : memref<?xi16>, vector<8xi16>
    %1 = arith.extui %0 : vector<8xi16> to vector<8xi32>
    %2 = arith.shli %1, %c16 : vector<8xi32>
    %3 = arith.bitcast %2 : vector<8xi32> to vector<8xf32>
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::vector::VectorDialect"];
}

def PlanMemory : Pass<"buddy-plan-memory", "::mlir::ModuleOp"> {
  let summary = "place all buffers of a call in one workspace, reusing dead ones";
  let description = [{
    Each function with allocations takes a workspace (`memref<?xi8>`) as its last
    argument and gets a sibling `@NAME.workspace_size` that computes the bytes it needs
    from the same arguments' sizes. Buffers whose live ranges do not overlap share
    space. A callee's workspace is part of its caller's. Small constant-size buffers
    inside loops become stack allocations. A buffer whose size the arguments do not
    determine stays a heap allocation, freed at the end of its block.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::memref::MemRefDialect"];
}

def VerifyNoCopies : Pass<"buddy-verify-no-copies", "::mlir::ModuleOp"> {
  let summary = "fail if a weight or a state is copied";
  let description = [{
    Follows views and calls from each argument of kind `weight` or `state` and reports
    an error at a copy that reads the whole of it. A copy that the meaning asks for is
    none: the argument is overwritten and the copy read after, or the copy changed and the
    whole argument read after. Entry points with `buddy.may_copy` are not looked at.
  }];
}

//===-- LLVM passes -----------------------------------------------------------===//

def EmitEntries : Pass<"buddy-emit-entries", "::mlir::ModuleOp"> {
  let summary = "thread the call context through and emit exported entry points";
  let description = [{
    Every function takes the call's context as first argument; `buddy.check` and
    `buddy.num_threads` become accesses to it. For each function with `buddy.entry` the
    exported `NAME` and `NAME_workspace_size` are emitted after the calling convention of
    docs/architecture.md: descriptors are checked, bound weights are viewed in the
    context's weights, errors are returned.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::arith::ArithDialect",
                           "::mlir::cf::ControlFlowDialect",
                           "::mlir::func::FuncDialect", "::mlir::scf::SCFDialect",
                           "::mlir::memref::MemRefDialect"];
}

#endif
