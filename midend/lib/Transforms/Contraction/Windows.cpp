//===- Windows.cpp - panels of B from the windows of an image -------------===//
//
// A panel's columns are points of the output image one after the other. Those
// of one vector lie in a few rows of it (segments), each of which sees
// consecutive elements of the image at a stride: one masked load a segment, and
// with a stride one for each element of a step, which a shuffle picks from. The
// masks and places are those of a tap, a place in the window, and hold for all
// channels, so channels are the inner loop.
//
//===----------------------------------------------------------------------===//

#include "Emitter.h"

using namespace mlir;
using namespace buddy;

SmallVector<Value> ContractionEmitter::delinearize(Value number,
                                                   ArrayRef<int64_t> sizes) {
  Values result(sizes.size());
  for (size_t i = sizes.size(); i-- > 1;) {
    result[i] = modulo(number, constant(sizes[i]));
    number = divide(number, constant(sizes[i]));
  }
  if (!sizes.empty())
    result[0] = number;
  return result;
}

SmallVector<ContractionEmitter::Segment>
ContractionEmitter::segmentsOf(const Panel &panel, Value offset) {
  WindowsAttr windows = c.b.windows;
  ArrayRef<int64_t> image = windows.getImage();
  Value point = add(panel.start, offset);
  Value count = panel.isEdge ? minimum(vectorLength, sub(sizes[c.col], point))
                             : vectorLength;
  if (image.size() == 1)
    return {{Value(), count, point, {}}};
  Value length = constant(image.back());
  Value line = divide(point, length), column = modulo(point, length);
  SmallVector<Segment> segments;
  for (int64_t i = 0, e = windows.segments(schedule.getVl()); i < e; ++i) {
    Segment segment;
    segment.column = sub(column, constant(i * image.back()));
    segment.from = i == 0 ? Value() : sub(constant(0), segment.column);
    segment.to = minimum(count, sub(length, segment.column));
    segment.lines = delinearize(add(line, i), image.drop_back());
    segments.push_back(segment);
  }
  return segments;
}

Value ContractionEmitter::lanes(Value from, Value to) {
  VectorType type = vectorType(b.getI1Type());
  Value upper = vector::CreateMaskOp::create(b, type, to);
  if (!from)
    return upper;
  Value lower = vector::CreateMaskOp::create(b, type, from);
  Value all = arith::ConstantOp::create(b, DenseElementsAttr::get(type, true));
  return arith::AndIOp::create(b, upper, arith::XOrIOp::create(b, lower, all));
}

void ContractionEmitter::packWindows(const Panel &panel, const Block &block) {
  if (unit > 1) {
    // A last element without a partner is paired with zero.
    Value last = sub(block.redCount, constant(1));
    for (Value offset : panel.offsets)
      vector::StoreOp::create(
          b, zero(factorType()), block.packedB,
          add(mul(roundDown(last, constant(unit)), panel.width),
              mul(offset, unit)));
  }
  for (Value offset : panel.offsets) {
    SmallVector<Segment> segments = segmentsOf(panel, offset);
    forLoop(
        constant(0), constant(c.b.windows.places()), constant(1),
        [&](Value tap) { packTap(block, segments, tap, panel.width, offset); });
  }
}

void ContractionEmitter::packTap(const Block &block, ArrayRef<Segment> segments,
                                 Value tap, Value width, Value offset) {
  WindowsAttr windows = c.b.windows;
  unsigned last = windows.getImage().size() - 1;
  int64_t stride = windows.getStrides()[last], vl = schedule.getVl();
  Values taps = delinearize(tap, windows.getKernel());
  for (auto [place, dilation] : llvm::zip(taps, windows.getDilations()))
    place = mul(place, dilation);
  auto type = cast<MemRefType>(c.b.value.getType());
  // The first step that is at 0 or beyond, from so many elements on.
  auto stepsTo = [&](Value elements) {
    return ceilDiv(maximum(elements, constant(0)), constant(stride));
  };
  // Per segment: the place of the first element, masks of the elements of each
  // vector that is loaded.
  SmallVector<Values> places, masks;
  for (const Segment &segment : segments) {
    Values at;
    Value first = segment.from, end = segment.to;
    for (unsigned i = 0; i <= last; ++i) {
      Value step = i < last ? segment.lines[i] : segment.column;
      at.push_back(add(mul(step, windows.getStrides()[i]), taps[i]));
      int64_t size = type.getDimSize(type.getRank() - 1 - last + i);
      if (c.b.low.empty() || c.b.padded[i] == size)
        continue;
      // Padding is no memory: what lies there is zero, as lanes left out are.
      at[i] = sub(at[i], constant(c.b.low[i]));
      if (i < last) {
        Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult,
                                             at[i], constant(size));
        end = arith::SelectOp::create(b, inside, end, constant(0));
        continue;
      }
      Value least = stepsTo(sub(constant(0), at[i]));
      first = first ? maximum(first, least) : least;
      end = minimum(end, stepsTo(sub(constant(size), at[i])));
    }
    Value from = first ? mul(first, stride) : Value();
    Value to = stride == 1 ? end : add(mul(sub(end, constant(1)), stride), 1);
    Values loaded;
    for (int64_t i = 0; i < stride; ++i)
      loaded.push_back(lanes(from ? sub(from, constant(i * vl)) : Value(),
                             sub(to, constant(i * vl))));
    places.push_back(at);
    masks.push_back(loaded);
  }
  VectorType loadedType = vectorType(c.b.elementType());
  Value none = zero(loadedType);
  auto load = [&](Value channel) {
    Value result;
    for (int64_t i = 0; i < stride; ++i) {
      Value part = none;
      for (auto [at, mask] : llvm::zip(places, masks)) {
        Values indices;
        for (unsigned d = 0; d + 2 < c.b.map.getNumResults(); ++d)
          indices.push_back(outer[c.b.map.getDimPosition(d)]);
        indices.push_back(channel);
        indices.append(at);
        indices.back() = add(indices.back(), i * vl);
        part = vector::MaskedLoadOp::create(b, loadedType, c.b.value, indices,
                                            mask[i], part);
      }
      // Lane l is element l * stride, of which some have been found.
      SmallVector<int64_t> picked;
      for (int64_t l = 0; l < vl; ++l) {
        int64_t element = l * stride - i * vl;
        bool isHere = element >= 0 && element < vl;
        picked.push_back(isHere   ? (i == 0 ? element : vl + element)
                         : i == 0 ? 0
                                  : l);
      }
      if (stride == 1)
        result = part;
      else
        result =
            vector::ShuffleOp::create(b, i == 0 ? part : result, part, picked);
    }
    return result;
  };

  int64_t count = windows.places();
  auto firstChannel = [&](Value red) {
    return divide(sub(add(red, count - 1), tap), constant(count));
  };
  Value end = add(block.redStart, block.redCount);
  forLoop(
      firstChannel(block.redStart), firstChannel(end), constant(1),
      [&](Value channel) {
        Value k = sub(add(mul(channel, count), tap), block.redStart);
        Value loaded = load(channel);
        if (unit == 1) {
          vector::StoreOp::create(b, convert(c.b, loaded), block.packedB,
                                  add(mul(k, width), offset));
          return;
        }
        // To every other place of a row of pairs.
        Value second = modulo(k, constant(unit));
        VectorType maskType = factorType().clone(b.getI1Type());
        SmallVector<bool> odd;
        for (int64_t i = 0; i < unit * vl; ++i)
          odd.push_back(i % unit != 0);
        Value odds =
            arith::ConstantOp::create(b, DenseElementsAttr::get(maskType, odd));
        for (bool &bit : odd)
          bit = !bit;
        Value evens =
            arith::ConstantOp::create(b, DenseElementsAttr::get(maskType, odd));
        Value mask =
            arith::SelectOp::create(b, equal(second, constant(0)), evens, odds);
        vector::MaskedStoreOp::create(
            b, block.packedB,
            add(mul(sub(k, second), width), mul(offset, unit)), mask,
            vector::InterleaveOp::create(b, loaded, loaded));
      });
}
